-- Slots of these partitions ($1), held now ($2) and since before $3, whose node has no operation that runs.
select s.job_id, s.node, s.partition
from umbra.slots as s
where s.partition = any ($1::text::int[])
  and s.held_until > $2::text::bigint
  and s.granted_at < $3::text::bigint
  and not exists (
    select from umbra.operations as o where o.job_id = s.job_id and o.node = s.node and o.ended_at is null
  )
