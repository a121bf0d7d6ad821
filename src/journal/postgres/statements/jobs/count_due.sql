-- How many jobs of these partitions ($1) have a wake_at of at least $2 and are, by (wake_at, id), not after ($3, $4):
-- counts to $5. Each partition is read from its own range of the index, so at most $5 entries are read.
select count(*)::int as count
from (
  select
  from unnest($1::text::int[]) as p (id)
  cross join lateral (
    select
    from umbra.jobs as j
    where j.partition = p.id
      and j.wake_at >= $2::text::bigint
      and (j.wake_at, j.id) <= ($3::text::bigint, $4::text::uuid)
    limit $5::text::bigint
  ) as d
  limit $5::text::bigint
) as found
