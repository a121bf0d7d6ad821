-- The targets of an alias.
select alias, targets, moved_at, moved_by
from umbra.aliases
where owner = @owner::text and name = @name::text and alias = @alias::text
