-- One version of a workflow, deleted or not: running jobs need theirs. When @version is null, the latest that is
-- not deleted.
select version, hash, definition, created_at, false as unchanged, deleted_at, pushed_by, rules
from umbra.workflows
where owner = @owner::text and name = @name::text and version = coalesce(@version::text::int, version)
  and (@version::text is not null or deleted_at is null)
order by version desc
limit 1
