/**
 * The tables of the pipeline store (pipelines.ts). Messages and lineage have by far the most rows. Lineage is
 * narrow, and one tree holds it (without rowid). The body of a message may be large: 50,000 bodies of 1,500
 * bytes took 101 MB and 17 µs each in a table with a rowid, 225 MB and 44 µs each without (rows of an index
 * tree spill to a page of their own above 1 KB).
 */
export const pipelineTables = `
-- An execution is the pipeline's side of a job. An id is never used twice.
create table executions (
  id integer primary key autoincrement,
  job_id text not null,
  claimed_at integer not null,
  ended_at integer,
  commit_number integer not null default 0,
  -- It has ended, and its lineage was removed.
  is_trimmed integer not null default 0,
  -- Its job is gone, and its rows are being removed.
  is_orphan integer not null default 0,
  progress text
) strict;

create unique index executions_job on executions (job_id) where is_orphan = 0;
-- What counts against the limit, however many have ended.
create index executions_open on executions (id) where ended_at is null;
-- Retention, each until it is done.
create index executions_untrimmed on executions (ended_at) where ended_at is not null and is_trimmed = 0;
create index executions_orphans on executions (id) where is_orphan = 1;

create table pipeline_messages (
  execution integer not null,
  route integer not null,
  seq integer not null,
  parent_route integer,
  parent_seq integer,
  root integer not null,
  hops integer not null,
  at integer not null,
  -- Of the body: pages are cut without reading it.
  bytes integer not null,
  body text not null,
  primary key (execution, route, seq)
) strict;

-- All invocations of one attempt at a message in one row (lineage.ts). commit_number and place, the row's number
-- within its commit, tell several rows of one attempt apart.
create table pipeline_lineage (
  execution integer not null,
  route integer not null,
  seq integer not null,
  attempt integer not null,
  commit_number integer not null,
  place integer not null,
  gathered_into integer,
  steps text not null,
  primary key (execution, route, seq, attempt, commit_number, place)
) strict, without rowid;

create index pipeline_lineage_gathered on pipeline_lineage (execution, route, gathered_into, seq)
where gathered_into is not null;

-- Messages that wait for their next try, and dead letters (due_at null).
create table pipeline_parked (
  execution integer not null,
  route integer not null,
  seq integer not null,
  attempts integer not null,
  due_at integer,
  at integer not null,
  replayed_by text,
  replayed_at integer,
  error text not null,
  primary key (execution, route, seq)
) strict, without rowid;

create index pipeline_parked_due_at on pipeline_parked (execution, route, due_at, seq) where due_at is not null;
create index pipeline_parked_dead on pipeline_parked (execution, route, seq) where due_at is null;
create index pipeline_parked_replayed_by on pipeline_parked (replayed_by, execution, route, seq)
where replayed_by is not null;

-- What adapters have put into the storage of their execution.
create table pipeline_stored (
  execution integer not null,
  key text not null,
  value text not null,
  primary key (execution, key)
) strict;
`

/** As in 0018_replayed_bodies.sql of PostgreSQL. */
export const replayedBodies = `
-- The body that a dead letter is replayed with; null: its own.
alter table pipeline_parked add column replay_body text;

-- Executions with dead letters that no job replays, newest first.
create index pipeline_parked_left on pipeline_parked (execution) where due_at is null and replayed_by is null;
`
