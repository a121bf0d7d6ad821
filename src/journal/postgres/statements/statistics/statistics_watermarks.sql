-- The watermarks of partitions (@partitions); behind is one with facts after it, up to the seq in @up_to.
select
  w.partition, w.seq,
  exists (
    select from umbra.journal as j where j.partition = w.partition and j.seq > w.seq and j.seq <= p.up_to
  ) as is_behind
from unnest(@partitions::text::int[], @up_to::text::bigint[]) as p (id, up_to)
join umbra.statistics_watermarks as w on w.partition = p.id
order by w.partition
