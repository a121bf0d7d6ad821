-- One version of a workflow, or the latest when $3 is null.
select version, hash, definition, created_at
from umbra.workflows
where owner = $1::text and name = $2::text and version = coalesce($3::text::int, version)
order by version desc
limit 1
