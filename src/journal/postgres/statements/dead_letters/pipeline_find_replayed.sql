-- Among the dead letters of execution @execution and route @route that job @replayed_by replays, the one with @before of them before it.
select route, seq
from umbra.pipeline_parked
where replayed_by = @replayed_by::text::uuid and execution = @execution::text::bigint and route = @route::text::smallint
order by seq
offset @before::text::bigint
limit 1
