-- At most $3 jobs of these partitions ($1) that ended before $2, oldest first. A child stays as long as its parent,
-- which may be retried and ask for its output.
select j.id
from umbra.jobs as j
where j.finished_at < $2::text::bigint
  and j.partition = any ($1::text::int[])
  and not exists (select from umbra.jobs as p where p.id = j.parent_id)
order by j.finished_at
limit $3::text::bigint
