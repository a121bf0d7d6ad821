-- The journal, its projection, and who may write to it. Times are milliseconds since 1970, given by the caller.
-- JSON is `json`, never `jsonb`: it comes back byte for byte, with \u0000, lone surrogates and key order intact.
-- Every index costs throughput; each one here says what cannot do without it.

-- Fencing: `epoch` changes only at take-over. An append share-locks the row; a take-over updates it.
create table umbra.partitions (
  id int primary key,
  owner text,
  epoch bigint not null
);

insert into umbra.partitions (id, owner, epoch)
select id, null, 0 from generate_series(0, 63) as id;

-- Liveness: `beat` rises while the engine lives. `purged_beat` is the beat the last purge saw.
create table umbra.engines (
  id text primary key,
  place text not null,
  beat bigint not null,
  purged_beat bigint
);

create table umbra.workflows (
  owner text not null,
  name text not null,
  version int not null,
  hash text not null,
  definition json not null,
  created_at bigint not null,
  primary key (owner, name, version)
);

-- One row per job, written with its facts. Room on each page keeps most updates in place (HOT).
create table umbra.jobs (
  id uuid primary key,
  seq bigint not null,
  created_at bigint not null,
  updated_at bigint not null,
  finished_at bigint,
  wake_at bigint,
  partition int not null,
  workflow_version int not null,
  priority int not null,
  status text not null,
  owner text not null,
  workflow text not null,
  parent_id uuid,
  labels json,
  output json,
  error json
) with (fillfactor = 80);

-- The alarm clock: due jobs of a partition in order, without looking at the million that wait.
create index jobs_wake_at on umbra.jobs (partition, wake_at, id) where wake_at is not null;
-- Retention. Holds finished jobs only, so a running job never touches it.
create index jobs_finished_at on umbra.jobs (finished_at) where finished_at is not null;
-- One owner's list, newest first, however many jobs other owners have.
create index jobs_owner on umbra.jobs (owner, id);

-- The truth. `seq` is epoch × 2^34 + counter: it rises within a partition without an index on (partition, seq).
-- `bytes` is the size of `data`, so that a large output can be passed over without being read.
create table umbra.journal (
  job_id uuid not null,
  seq bigint not null,
  at bigint not null,
  partition int not null,
  bytes int not null,
  type text not null,
  data json not null,
  primary key (job_id, seq)
);

-- Commands to a partition owned elsewhere. `cause` recognises a message that is sent again.
create table umbra.inbox (
  id bigint generated always as identity primary key,
  partition int not null,
  job_id uuid not null,
  sent_at bigint not null,
  withdrawn boolean not null default false,
  cause text not null unique,
  command json not null,
  answer json
);

-- Open messages only: it is empty nearly always.
create index inbox_open on umbra.inbox (partition, id) where answer is null and not withdrawn;

create table umbra.idempotency_keys (
  owner text not null,
  key text not null,
  job_id uuid not null,
  fingerprint text not null,
  created_at bigint not null,
  primary key (owner, key)
);

create index idempotency_keys_created_at on umbra.idempotency_keys (created_at);
