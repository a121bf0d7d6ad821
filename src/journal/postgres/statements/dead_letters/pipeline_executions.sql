-- At most $4 executions of owner $1 before $2, newest first, among the $3 newest of all owners: `scanned` is the oldest of
-- these, `is_end` says that there are no older ones. One row without an execution if none is found.
with seen as materialized (
  select id, job_id, progress, ended_at
  from umbra.executions
  where id < $2::text::bigint and not is_orphan
  order by id desc
  limit $3::text::bigint
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
  (select min(id) from seen) as scanned,
  (select count(*) from seen) < $3::text::bigint as is_end
from (select) as one
left join found as f on true
order by f.id desc
