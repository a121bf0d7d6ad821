-- Schedules of the partitions $1 with a tick that waits for the end of a job.
select
  id, owner, name, partition, revision, document, created_at, updated_at, paused_at, last_tick, queued_tick, last_job,
  next_at
from umbra.schedules
where partition = any ($1::text::int[]) and queued_tick is not null
order by id
