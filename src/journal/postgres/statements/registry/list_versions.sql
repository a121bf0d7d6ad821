-- Versions of a workflow (@owner, @name) that are not deleted, newest first, below @before: at most @limit.
select version, hash, created_at, pushed_by
from umbra.workflows
where owner = @owner::text and name = @name::text and version < @before::text::int and deleted_at is null
order by version desc
limit @limit::text::bigint
