-- Log lines of attempts (src/journal/port/logs.ts): one row for the lines of one attempt that were written together. `position`
-- counts the rows of a job.
create table umbra.node_logs (
  job_id uuid not null,
  position bigint not null,
  node_id text not null,
  item int not null,
  fence int not null,
  attempt int not null,
  first_line int not null,
  last_line int not null,
  level smallint not null,
  bytes int not null,
  lines text not null,
  primary key (job_id, position)
);

create index node_logs_node on umbra.node_logs (job_id, node_id, position);
create unique index node_logs_attempt on umbra.node_logs (job_id, node_id, item, fence, first_line);

-- Jobs that were removed, and whose rows are still there.
create table umbra.log_orphans (job_id uuid primary key);
