-- The number of dead letters of execution @execution that job @replayed_by replays.
select count(*) from umbra.pipeline_parked where replayed_by = @replayed_by::text::uuid and execution = @execution::text::bigint
