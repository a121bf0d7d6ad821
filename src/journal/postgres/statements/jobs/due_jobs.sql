-- Jobs of these partitions (@partitions) that are due at @at, by (wake_at, id), after the cursor (@wake_at, @id): at
-- most @limit and one more, which tells when the next query is due. Each partition is read from its own range of the
-- index, so a million waiting jobs, or a million overdue ones of another engine, cost nothing.
select d.wake_at, d.id
from unnest(@partitions::text::int[]) as p (id)
cross join lateral (
  select j.wake_at, j.id
  from umbra.jobs as j
  where j.partition = p.id
    and j.wake_at <= @at::text::bigint
    and (j.wake_at, j.id) > (@wake_at::text::bigint, @id::text::uuid)
  order by j.wake_at, j.id
  limit @limit::text::bigint + 1
) as d
order by d.wake_at, d.id
limit @limit::text::bigint + 1
