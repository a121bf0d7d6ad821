-- The runs of an attempt that have logged: a task that is sent again keeps its fence. run_id identifies a run, as its worker drew it; run
-- numbers the runs of an attempt in the order in which their first rows were stored.
alter table umbra.node_logs
  add column run_id int not null default 0,
  add column run int not null default 1;

create unique index node_logs_run on umbra.node_logs (job_id, node_id, item, fence, run, first_line);
drop index umbra.node_logs_attempt;
