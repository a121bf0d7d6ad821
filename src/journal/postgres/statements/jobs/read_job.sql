-- The projection of one job.
select
  id, partition, seq, status, updated_at, finished_at, wake_at, output, error, fingerprint,
  owner, workflow, workflow_version, parent_id, labels, priority, created_at, submitted_by,
  forked_from, definition
from umbra.jobs
where id = @id::text::uuid
