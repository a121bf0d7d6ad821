-- Forks: jobs that take over results of other jobs.

-- `definition`: the hash of a definition that is no version of the workflow; then workflow_version is 0.
alter table umbra.jobs
  add column forked_from uuid,
  add column definition text;

-- What a job (`by`) refers to outside of itself: another job, by its id, or a definition, by its hash. Written in the append
-- that creates the job, removed with the job. Retention passes over what is held.
create table umbra.held (
  held text not null,
  by uuid not null,
  primary key (held, by)
);

create index held_by on umbra.held (by);

-- Definitions that are no version of their workflow. `used_at`: when a job last began with it.
create table umbra.definitions (
  hash text primary key,
  rules int not null,
  used_at bigint not null,
  definition json not null
);
