-- Versions of a workflow ($1 owner, $2 name) that are not deleted, newest first, below $3: at most $4.
select version, hash, created_at, pushed_by
from umbra.workflows
where owner = $1::text and name = $2::text and version < $3::text::int and deleted_at is null
order by version desc
limit $4::text::bigint
