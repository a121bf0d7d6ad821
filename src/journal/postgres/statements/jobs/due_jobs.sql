-- Jobs of these partitions ($1) that are due at $2, by (wake_at, id), after the cursor ($4, $5): at most $3
-- and one more, which tells when the next query is due. Each partition is read from its own range of the
-- index, so a million waiting jobs, or a million overdue ones of another engine, cost nothing.
select d.wake_at, d.id
from unnest($1::text::int[]) as p (id)
cross join lateral (
  select j.wake_at, j.id
  from umbra.jobs as j
  where j.partition = p.id
    and j.wake_at <= $2::text::bigint
    and (j.wake_at, j.id) > ($4::text::bigint, $5::text::uuid)
  order by j.wake_at, j.id
  limit $3::text::bigint + 1
) as d
order by d.wake_at, d.id
limit $3::text::bigint + 1
