-- The first timer after $2 in these partitions ($1): one index lookup per partition.
select min(n.wake_at) as wake_at
from unnest($1::text::int[]) as p (id)
cross join lateral (
  select j.wake_at
  from umbra.jobs as j
  where j.partition = p.id and j.wake_at > $2::text::bigint
  order by j.wake_at
  limit 1
) as n
