-- The targets of an alias.
select alias, targets, moved_at, moved_by
from umbra.aliases
where owner = $1::text and name = $2::text and alias = $3::text
