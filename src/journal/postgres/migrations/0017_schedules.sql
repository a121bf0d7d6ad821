-- Schedules. A schedule belongs to the partition that follows from owner and name; its owner decides the ticks, in the append
-- of the jobs that they start. last_tick only rises. revision rises with every change by a user.
create table umbra.schedules (
  id uuid primary key,
  owner text not null,
  name text not null,
  partition int not null,
  revision int not null,
  document json not null,
  created_at bigint not null,
  updated_at bigint not null,
  paused_at bigint,
  last_tick bigint not null,
  queued_tick bigint,
  last_job uuid,
  next_at bigint,
  unique (owner, name)
);

-- The alarm of a partition.
create index schedules_next_at on umbra.schedules (partition, next_at) where next_at is not null;
-- Take-over.
create index schedules_queued on umbra.schedules (partition) where queued_tick is not null;

-- The outcomes of ticks and of runs that users requested.
create table umbra.fires (
  schedule_id uuid not null,
  tick bigint not null,
  kind text not null,
  at bigint not null,
  outcome text not null,
  job_id uuid,
  reason text,
  count int not null,
  primary key (schedule_id, tick, kind)
);

-- Removal of old outcomes.
create index fires_at on umbra.fires (at);
