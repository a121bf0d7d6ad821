-- The first timer after @at in these partitions (@partitions): one index lookup per partition.
select min(n.wake_at) as wake_at
from unnest(@partitions::text::int[]) as p (id)
cross join lateral (
  select j.wake_at
  from umbra.jobs as j
  where j.partition = p.id and j.wake_at > @at::text::bigint
  order by j.wake_at
  limit 1
) as n
