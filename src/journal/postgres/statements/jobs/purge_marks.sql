-- Removes entries of buckets without jobs, in steps: of at most @limit entries after (@mark, @place), those with a
-- place below @before_place that these partitions (@partitions) have written. Returns the last entry that was read and
-- the number of removed ones; no row: there are no more entries.
with read as materialized (
  select mark, place
  from umbra.job_marks
  where (mark, place) > (@mark::text::bigint, @place::text::bigint)
  order by mark, place
  limit @limit::text::bigint
),
removed as (
  delete from umbra.job_marks as m
  using read as r
  where m.mark = r.mark
    and m.place = r.place
    and r.place < @before_place::text::bigint
    and (r.place % 64)::int = any (@partitions::text::int[])
    and not exists (
      select
      from umbra.jobs as j
      where j.id >= rpad(lpad(to_hex(r.place / 256), 11, '0'), 32, '0')::uuid
        and j.id <= rpad(lpad(to_hex(r.place / 256), 11, '0'), 32, 'f')::uuid
    )
  returning 1
)
select r.mark, r.place, (select count(*) from removed) as removed, (select count(*) from read) as read
from read as r
order by r.mark desc, r.place desc
limit 1
