-- The schedules of the partitions $1 with a tick that waits for the end of a job.
select id
from umbra.schedules
where partition = any ($1::text::int[]) and queued_tick is not null
