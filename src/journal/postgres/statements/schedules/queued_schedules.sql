-- The schedules of the partitions @partitions with a tick that waits for the end of a job.
select id
from umbra.schedules
where partition = any (@partitions::text::int[]) and queued_tick is not null
