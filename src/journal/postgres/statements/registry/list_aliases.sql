-- The aliases of a workflow, by name.
select alias, targets, moved_at, moved_by
from umbra.aliases
where owner = @owner::text and name = @name::text
order by alias
