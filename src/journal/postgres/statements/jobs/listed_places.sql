-- The greatest @limit places below @before, descending: of entries of these marks (@marks), and of unfinished jobs of
-- these owners (@unfinished_owners; the place of a job is its bucket × 256). @before_id is the lowest id of the bucket
-- @before / 256.
select place
from (
  select m.place
  from unnest(@marks::text::bigint[]) as u (mark)
  cross join lateral (
    select place
    from umbra.job_marks
    where job_marks.mark = u.mark and place < @before::text::bigint
    order by place desc
    limit @limit::text::bigint
  ) as m
  union all
  select ('x' || left(replace(j.id::text, '-', ''), 11))::bit(44)::bigint * 256
  from unnest(@unfinished_owners::text::text[]) as o (owner)
  cross join lateral (
    select id
    from umbra.jobs
    where jobs.owner = o.owner and finished_at is null and id < @before_id::text::uuid
    order by id desc
    limit @limit::text::bigint
  ) as j
) as found
order by place desc
limit @limit::text::bigint
