-- Retention, first step: executions whose job has ended without a record of their own end have ended with it;
-- claims from more than @abandoned_ms ms before @before whose job was never stored are orphans. Uses the index
-- executions_open, which is short.
with ended as (
  update umbra.executions as e
  set ended_at = j.finished_at
  from umbra.jobs as j
  where e.ended_at is null and j.id = e.job_id and j.finished_at >= e.claimed_at
)
update umbra.executions as e
set is_orphan = true, ended_at = e.claimed_at
where e.ended_at is null
  and e.claimed_at < @before::text::bigint - @abandoned_ms::text::bigint
  and not exists (select from umbra.jobs as j where j.id = e.job_id)
