/** Log lines of attempts (journal/port/logs.ts). */
export const logTables = `
-- One row for the lines of one attempt that were written together. position counts the rows of a job.
create table node_logs (
  job_id text not null,
  position integer not null,
  node_id text not null,
  item integer not null,
  fence integer not null,
  attempt integer not null,
  first_line integer not null,
  last_line integer not null,
  level integer not null,
  bytes integer not null,
  lines text not null,
  primary key (job_id, position)
) strict;

-- The lines of a node.
create index node_logs_node on node_logs (job_id, node_id, position);
-- The lines of an item or attempt; a row is stored once.
create unique index node_logs_attempt on node_logs (job_id, node_id, item, fence, first_line);

-- Jobs that were removed, and whose rows are still there.
create table log_orphans (job_id text primary key) strict, without rowid;
`

/**
 * The runs of an attempt that have logged: a task that is sent again keeps its fence. run_id identifies a run, as its worker drew it; run
 * numbers the runs of an attempt in the order in which their first rows were stored.
 */
export const logRuns = `
alter table node_logs add column run_id integer not null default 0;
alter table node_logs add column run integer not null default 1;

-- The lines of an item or attempt; a row is stored once.
create unique index node_logs_run on node_logs (job_id, node_id, item, fence, run, first_line);
drop index node_logs_attempt;
`
