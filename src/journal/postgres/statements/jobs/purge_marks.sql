-- Removes entries of buckets without jobs, in steps: of at most $3 entries after ($1 mark, $2 place), those with a
-- place below $4 that these partitions ($5) have written. Returns the last entry that was read and the number of
-- removed ones; no row: there are no more entries.
with read as materialized (
  select mark, place
  from umbra.job_marks
  where (mark, place) > ($1::text::bigint, $2::text::bigint)
  order by mark, place
  limit $3::text::bigint
),
removed as (
  delete from umbra.job_marks as m
  using read as r
  where m.mark = r.mark
    and m.place = r.place
    and r.place < $4::text::bigint
    and (r.place % 64)::int = any ($5::text::int[])
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
