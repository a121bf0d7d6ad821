/** Schedules (port/schedules.ts). */
export const scheduleTables = `
create table schedules (
  id text primary key,
  owner text not null,
  name text not null,
  partition integer not null,
  revision integer not null,
  document text not null,
  created_at integer not null,
  updated_at integer not null,
  paused_at integer,
  last_tick integer not null,
  queued_tick integer,
  last_job text,
  next_at integer,
  unique (owner, name)
) strict, without rowid;

-- The alarm of a partition.
create index schedules_next_at on schedules (partition, next_at) where next_at is not null;
-- Take-over.
create index schedules_queued on schedules (partition) where queued_tick is not null;

-- The outcomes of ticks and of runs that users requested.
create table fires (
  schedule_id text not null,
  tick integer not null,
  kind text not null,
  at integer not null,
  outcome text not null,
  job_id text,
  reason text,
  count integer not null,
  primary key (schedule_id, tick, kind)
) strict, without rowid;

-- Removal of old outcomes.
create index fires_at on fires (at);
`
