-- One schedule by owner and name.
select
  id, owner, name, partition, revision, document, created_at, updated_at, paused_at, last_tick, queued_tick, last_job,
  next_at
from umbra.schedules
where owner = @owner::text and name = @name::text
