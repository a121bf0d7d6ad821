-- The start of a new stream: the last fact of each partition, and the newest $2 jobs of owner $1 that have
-- not ended. One statement sees one state of the store, so that the jobs are exactly as they were at that
-- position. Two lists as one, distinguished by the first column.
select
  'position', p.id::text,
  coalesce((select f.seq from umbra.journal as f where f.partition = p.id order by f.seq desc limit 1), 0)::text
from umbra.partitions as p
union all
(
  select 'job', j.id::text, j.partition::text
  from umbra.jobs as j
  where j.owner = $1::text and j.finished_at is null
  order by j.id desc
  limit $2::text::bigint
)
