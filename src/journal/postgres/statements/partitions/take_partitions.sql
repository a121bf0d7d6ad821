-- Takes partitions whose epoch (@epochs) is still the expected one: of two engines exactly one gets each, because
-- the second waits for the row and then finds the epoch changed. Rows are locked in order, so that two
-- engines that want the same partitions never deadlock. Sent again after a lost answer, the statement finds
-- its own take and returns it.
with wanted as materialized (
  select p.id, w.epoch + 1 as epoch
  from unnest(@partitions::text::int[], @epochs::text::bigint[]) as w (id, epoch)
  join umbra.partitions as p on p.id = w.id
  where p.epoch = w.epoch or (p.epoch = w.epoch + 1 and p.owner = @engine::text)
  order by p.id
  for update of p
)
update umbra.partitions as p
set owner = @engine::text, epoch = wanted.epoch
from wanted
where p.id = wanted.id
returning p.id as partition, p.epoch
