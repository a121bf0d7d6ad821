-- Schedules of the partitions $1 with a tick that fires until $2, the earliest first, at most $3.
select
  id, owner, name, partition, revision, document, created_at, updated_at, paused_at, last_tick, queued_tick, last_job,
  next_at
from umbra.schedules
where partition = any ($1::text::int[]) and next_at <= $2::text::bigint
order by next_at, id
limit $3::text::bigint
