-- Retention as a steady flow of small steps, and the vacuum that follows it.

-- Jobs that were removed, and whose facts up to `seq` are being removed in pages: a job may have a million. A job that is
-- submitted again under the same id (its idempotency key outlived it) has only higher ones.
create table umbra.journal_orphans (
  job_id uuid primary key,
  seq bigint not null
);

-- A key is removed with its job. The ids begin with their time, so keys without a job are found in the same order as by
-- `created_at`.
create index idempotency_keys_job on umbra.idempotency_keys (job_id);
drop index umbra.idempotency_keys_created_at;

-- Removed rows are at most a twentieth of a table, or what is removed in a minute (`autovacuum_naptime`).
-- `vacuum_truncate`: to return empty pages at the end of a table to the file system, vacuum locks it against every append.
alter table umbra.jobs set (autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
alter table umbra.journal set (autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);
alter table umbra.idempotency_keys set (autovacuum_vacuum_scale_factor = 0.05);
alter table umbra.inbox set (autovacuum_vacuum_scale_factor = 0.05);
alter table umbra.pipeline_messages set (autovacuum_vacuum_scale_factor = 0.05);
alter table umbra.pipeline_lineage set (autovacuum_vacuum_scale_factor = 0.05);
alter table umbra.pipeline_parked set (autovacuum_vacuum_scale_factor = 0.05);
