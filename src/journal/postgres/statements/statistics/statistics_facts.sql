-- At most @limit facts of partition @partition after seq @after and up to @up_to, in their order, each with what the
-- row of its job says.
with page as materialized (
  select seq, at, job_id
  from umbra.journal
  where partition = @partition::text::int and seq > @after::text::bigint and seq <= @up_to::text::bigint
  order by seq
  limit @limit::text::bigint
)
select
  f.seq, f.at, f.job_id, j.owner, j.workflow, j.workflow_version as version, j.stats,
  j.finished_at is not null as has_ended
from page as f
left join umbra.jobs as j on j.id = f.job_id
order by f.seq
