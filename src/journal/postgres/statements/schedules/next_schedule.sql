-- When the first tick after @at of a schedule of the partitions @partitions fires: one entry of the index for each
-- partition.
select min(s.next_at) as next_at
from unnest(@partitions::text::int[]) as p (id)
cross join lateral (
  select next_at from umbra.schedules
  where partition = p.id and next_at > @at::text::bigint
  order by next_at
  limit 1
) as s
