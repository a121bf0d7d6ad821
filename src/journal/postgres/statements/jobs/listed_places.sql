-- The greatest $4 places below $3, descending: of entries of these marks ($1), and of unfinished jobs of these owners
-- ($2; the place of a job is its bucket × 256). $5 is the lowest id of the bucket $3 / 256.
select place
from (
  select m.place
  from unnest($1::text::bigint[]) as u (mark)
  cross join lateral (
    select place
    from umbra.job_marks
    where job_marks.mark = u.mark and place < $3::text::bigint
    order by place desc
    limit $4::text::bigint
  ) as m
  union all
  select ('x' || left(replace(j.id::text, '-', ''), 11))::bit(44)::bigint * 256
  from unnest($2::text::text[]) as o (owner)
  cross join lateral (
    select id
    from umbra.jobs
    where jobs.owner = o.owner and finished_at is null and id < $5::text::uuid
    order by id desc
    limit $4::text::bigint
  ) as j
) as found
order by place desc
limit $4::text::bigint
