-- The start of a new stream: the last fact of each partition, and the newest @limit jobs of owner @owner that have
-- not ended. One statement sees one state of the store, so that the jobs are exactly as they were at that
-- position.
select
  jsonb_agg(
    coalesce((select f.seq from umbra.journal as f where f.partition = p.id order by f.seq desc limit 1), 0) order by p.id
  ) as seqs,
  (
    select coalesce(jsonb_agg(j.id order by j.id desc), '[]')
    from (
      select id from umbra.jobs where owner = @owner::text and finished_at is null order by id desc limit @limit::text::bigint
    ) as j
  ) as jobs
from umbra.partitions as p
