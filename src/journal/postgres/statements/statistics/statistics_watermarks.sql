-- The watermarks of partitions ($1); behind is one with facts after it, up to the seq in $2.
select
  w.partition, w.seq,
  exists (
    select from umbra.journal as j where j.partition = w.partition and j.seq > w.seq and j.seq <= p.up_to
  ) as is_behind
from unnest($1::text::int[], $2::text::bigint[]) as p (id, up_to)
join umbra.statistics_watermarks as w on w.partition = p.id
order by w.partition
