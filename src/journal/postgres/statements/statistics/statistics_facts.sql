-- At most $4 facts of partition $1 after seq $2 and up to $3, in their order, each with what the row of its job says.
with page as materialized (
  select seq, at, job_id
  from umbra.journal
  where partition = $1::text::int and seq > $2::text::bigint and seq <= $3::text::bigint
  order by seq
  limit $4::text::bigint
)
select
  f.seq, f.at, f.job_id, j.owner, j.workflow, j.workflow_version as version, j.stats,
  j.finished_at is not null as has_ended
from page as f
left join umbra.jobs as j on j.id = f.job_id
order by f.seq
