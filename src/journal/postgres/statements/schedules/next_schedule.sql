-- When the first tick after $2 of a schedule of the partitions $1 fires: one entry of the index for each partition.
select min(s.next_at) as next_at
from unnest($1::text::int[]) as p (id)
cross join lateral (
  select next_at from umbra.schedules
  where partition = p.id and next_at > $2::text::bigint
  order by next_at
  limit 1
) as s
