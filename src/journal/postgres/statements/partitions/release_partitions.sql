-- Releases the partitions that this engine still holds. The epoch stays: only a take-over changes it.
with held as materialized (
  select p.id
  from unnest(@partitions::text::int[], @epochs::text::bigint[]) as h (id, epoch)
  join umbra.partitions as p on p.id = h.id and p.epoch = h.epoch
  where p.owner = @engine::text
  order by p.id
  for update of p
)
update umbra.partitions as p
set owner = null
from held
where p.id = held.id
