-- The schedules with the ids @ids that exist.
select
  id, owner, name, partition, revision, document, created_at, updated_at, paused_at, last_tick, queued_tick, last_job,
  next_at
from umbra.schedules
where id = any (@ids::text::uuid[])
