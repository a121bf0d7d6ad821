-- One version of a workflow, deleted or not: running jobs need theirs. When $3 is null, the latest that is
-- not deleted.
select version, hash, definition, created_at, false as unchanged, deleted_at, pushed_by, rules
from umbra.workflows
where owner = $1::text and name = $2::text and version = coalesce($3::text::int, version)
  and ($3::text is not null or deleted_at is null)
order by version desc
limit 1
