-- How many jobs of these partitions (@partitions) have a wake_at of at least @wake_at and are, by (wake_at, id), not
-- after (@last_wake_at, @last_id): counts to @limit. Each partition is read from its own range of the index, so at most
-- @limit entries are read.
select count(*)::int as count
from (
  select
  from unnest(@partitions::text::int[]) as p (id)
  cross join lateral (
    select
    from umbra.jobs as j
    where j.partition = p.id
      and j.wake_at >= @wake_at::text::bigint
      and (j.wake_at, j.id) <= (@last_wake_at::text::bigint, @last_id::text::uuid)
    limit @limit::text::bigint
  ) as d
  limit @limit::text::bigint
) as found
