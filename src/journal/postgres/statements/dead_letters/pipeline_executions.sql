-- At most @limit executions of owner @owner before @before, newest first, among the @scan newest of all owners:
-- `scanned` is the oldest of these, `is_end` says that there are no older ones. One row without an execution if none is
-- found.
--
-- pipeline_executions: of all. pipeline_executions_with_dead_letters: of those that have dead letters which no job
-- replays, with one step of the index for each.
with recursive
-- only in pipeline_executions_with_dead_letters
step (id, steps) as (
  select
    (
      select execution
      from umbra.pipeline_parked
      where due_at is null and replayed_by is null and execution < @before::text::bigint
      order by execution desc
      limit 1
    ),
    1::bigint
  union all
  select
    (
      select execution
      from umbra.pipeline_parked
      where due_at is null and replayed_by is null and execution < step.id
      order by execution desc
      limit 1
    ),
    steps + 1
  from step
  where id is not null and steps < @scan::text::bigint
),
seen as materialized (
  select e.id, e.job_id, e.progress, e.ended_at, step.id as scanned
  from step
  left join umbra.executions as e on e.id = step.id and not e.is_orphan
  where step.id is not null
),
-- end
-- not in pipeline_executions_with_dead_letters
seen as materialized (
  select id, job_id, progress, ended_at, id as scanned
  from umbra.executions
  where id < @before::text::bigint and not is_orphan
  order by id desc
  limit @scan::text::bigint
),
-- end
found as (
  select s.id, s.job_id, s.progress, s.ended_at
  from seen as s
  join umbra.jobs as j on j.id = s.job_id
  where j.owner = @owner::text and j.status <> 'DELETED'
  order by s.id desc
  limit @limit::text::bigint
)
select
  f.id as execution, f.job_id, f.progress, f.ended_at,
  (select min(scanned) from seen) as scanned,
  (select count(*) from seen) < @scan::text::bigint as is_end
from (select) as one
left join found as f on true
order by f.id desc
