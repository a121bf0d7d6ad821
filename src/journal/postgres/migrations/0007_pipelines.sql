-- Pipelines: executions, their messages, and what became of them. Times are milliseconds since 1970, given by the caller.
-- JSON is `json`, as in the journal. Messages and lineage are by far the most rows: they are narrow (columns by size,
-- largest first, so that nothing is lost to alignment), are only ever inserted, and have one index each but for the
-- gathered ones.

-- An execution is the pipeline's side of a job. Every commit updates the row: no index holds a column that it changes,
-- and half of each page is free, so that the update stays in place (HOT).
create table umbra.executions (
  id bigint generated always as identity primary key,
  job_id uuid not null unique,
  claimed_at bigint not null,
  ended_at bigint,
  commit bigint not null default 0,
  -- It has ended, and its lineage was removed.
  is_trimmed boolean not null default false,
  -- Its job is gone, and its rows are being removed.
  is_orphan boolean not null default false,
  progress json
) with (fillfactor = 50);

-- In the row as long as it fits: a value kept apart is written anew, and its old pieces stay until a vacuum.
alter table umbra.executions alter column progress set storage main;

-- What counts against the limit, however many have ended.
create index executions_open on umbra.executions (id) where ended_at is null;
-- Retention, each until it is done.
create index executions_untrimmed on umbra.executions (ended_at) where ended_at is not null and not is_trimmed;
create index executions_orphans on umbra.executions (id) where is_orphan;

-- One row. `version` rises with every place that is given: a claim that counted under an older one writes nothing.
create table umbra.execution_claims (
  id int primary key,
  version bigint not null
);

insert into umbra.execution_claims (id, version) values (1, 0);

create table umbra.pipeline_messages (
  execution bigint not null,
  seq bigint not null,
  at bigint not null,
  root bigint not null,
  parent_seq bigint,
  hops int not null,
  -- Of the body: pages are cut without reading it.
  bytes int not null,
  route smallint not null,
  parent_route smallint,
  body json not null,
  primary key (execution, route, seq)
);

-- All invocations of one attempt at a message in one row (encode-pipeline.ts): a row for each took twice the time.
create table umbra.pipeline_lineage (
  execution bigint not null,
  seq bigint not null,
  gathered_into bigint,
  attempt int not null,
  route smallint not null,
  steps text not null
);

create index pipeline_lineage_message on umbra.pipeline_lineage (execution, route, seq);
create index pipeline_lineage_gathered on umbra.pipeline_lineage (execution, route, gathered_into)
where gathered_into is not null;

-- Messages that wait for their next try, and dead letters (`due_at` null).
create table umbra.pipeline_parked (
  execution bigint not null,
  seq bigint not null,
  at bigint not null,
  due_at bigint,
  replayed_at bigint,
  replayed_by uuid,
  attempts int not null,
  route smallint not null,
  error json not null,
  primary key (execution, route, seq)
);

create index pipeline_parked_due_at on umbra.pipeline_parked (execution, route, due_at, seq) where due_at is not null;
create index pipeline_parked_dead on umbra.pipeline_parked (execution, route, seq) where due_at is null;
create index pipeline_parked_replayed_by on umbra.pipeline_parked (replayed_by, execution, route, seq)
where replayed_by is not null;

-- What adapters have put into the storage of their execution.
create table umbra.pipeline_stored (
  execution bigint not null,
  key text not null,
  value json not null,
  primary key (execution, key)
);
