-- Those of some jobs (@ids) that have ended. A large output (over 32 KB as stored) is left out and flagged.
select
  id, partition, seq, status, updated_at, finished_at, wake_at,
  case when pg_column_size(output) <= 32768 then output end as output, error, fingerprint,
  owner, workflow, workflow_version, parent_id, labels, priority, created_at, submitted_by,
  forked_from, definition,
  pg_column_size(output) > 32768 as is_large
from umbra.jobs
where id = any (@ids::text::uuid[]) and finished_at is not null
