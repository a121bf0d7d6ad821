-- The number of dead letters of execution $2 that job $1 replays.
select count(*) from umbra.pipeline_parked where replayed_by = $1::text::uuid and execution = $2::text::bigint
