-- Slots of these partitions (@partitions), granted before @granted_before, whose node has no running operation.
-- Includes those whose lease has ended: a node that waits for a slot asks again when it is notified.
select s.job_id, s.node, s.item, s.partition
from umbra.slots as s
where s.partition = any (@partitions::text::int[])
  and s.granted_at < @granted_before::text::bigint
  and not exists (
    select from umbra.operations as o
    where o.job_id = s.job_id and o.node = s.node and o.item = s.item and o.ended_at is null and not o.unseen
  )
