-- Among the dead letters of execution @execution and route @route that job @replayed_by replays, the number of those
-- before seq @seq.
select count(*)
from umbra.pipeline_parked
where replayed_by = @replayed_by::text::uuid
  and execution = @execution::text::bigint
  and route = @route::text::smallint
  and seq < @seq::text::bigint
