-- The aliases of a workflow, by name.
select alias, targets, moved_at, moved_by
from umbra.aliases
where owner = $1::text and name = $2::text
order by alias
