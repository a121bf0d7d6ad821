-- The body that a dead letter is replayed with; null: its own.
alter table umbra.pipeline_parked add column replay_body json;

-- Executions with dead letters that no job replays, newest first, however many messages wait for their next try.
create index pipeline_parked_left on umbra.pipeline_parked (execution) where due_at is null and replayed_by is null;
