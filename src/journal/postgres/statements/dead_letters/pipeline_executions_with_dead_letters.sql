-- As pipeline_executions.sql, of executions that have dead letters which no job replays: one step of the index for each.
with recursive step (id, steps) as (
  select
    (
      select execution
      from umbra.pipeline_parked
      where due_at is null and replayed_by is null and execution < $2::text::bigint
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
  where id is not null and steps < $3::text::bigint
),
seen as materialized (
  select e.id, e.job_id, e.progress, e.ended_at
  from step
  join umbra.executions as e on e.id = step.id and not e.is_orphan
),
found as (
  select s.id, s.job_id, s.progress, s.ended_at
  from seen as s
  join umbra.jobs as j on j.id = s.job_id
  where j.owner = $1::text and j.status <> 'DELETED'
  order by s.id desc
  limit $4::text::bigint
)
select
  f.id as execution, f.job_id, f.progress, f.ended_at,
  (select min(id) from step) as scanned,
  (select count(id) from step) < $3::text::bigint as is_end
from (select) as one
left join found as f on true
order by f.id desc
