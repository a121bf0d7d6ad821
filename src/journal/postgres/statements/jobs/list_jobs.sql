-- Jobs, newest first: ids rise with time, so the order is the primary key read backwards. $1 last id of the
-- previous page, $2 statuses, $3 workflow (each may be null), $4 show DELETED, $5 limit, $6, $7 created from
-- and before, $8, $9 names and values of labels (each may be null), $10 only jobs without a parent. A large
-- output (over 32 KB as stored) is left out and flagged: a thousand of them do not fit a page.
--
-- list_jobs: of every owner. list_jobs_of_owner: of one owner ($11), by the index (owner, id); an optional
-- owner would make one plan serve both, and the page of a rare owner would read every other owner's jobs.
-- list_jobs_of_parent: the children of a job ($13), of an owner ($11) or of all (null). The ids of a job and
-- its children have a common prefix ($12), so this is one short range of the primary key and needs no
-- separate index.
select
  id, partition, seq, status, updated_at, finished_at, wake_at,
  case when pg_column_size(output) <= 32768 then output end as output, error,
  owner, workflow, workflow_version, parent_id, labels, priority, created_at, submitted_by,
  pg_column_size(output) > 32768 as is_large
from umbra.jobs
where id < coalesce($1::text::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
  -- only in list_jobs_of_owner
  and owner = $11::text
  -- end
  -- only in list_jobs_of_parent
  and ($11::text is null or owner = $11::text)
  and id > ($12::text || '-0000-000000000000')::uuid
  and id < ($12::text || '-ffff-ffffffffffff')::uuid
  and parent_id = $13::text::uuid
  -- end
  and ($2::text is null or status = any ($2::text::text[]))
  and ($3::text is null or workflow = $3::text)
  and ($4::text::boolean or status <> 'DELETED')
  and ($6::text is null or created_at >= $6::text::bigint)
  and ($7::text is null or created_at < $7::text::bigint)
  and (
    $8::text is null
    or not exists (
      select
      from unnest($8::text::text[], $9::text::text[]) as l (name, value)
      where labels ->> l.name is distinct from l.value
    )
  )
  and (not $10::text::boolean or parent_id is null)
order by id desc
limit $5::text::bigint
