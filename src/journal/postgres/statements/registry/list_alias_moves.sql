-- The moves of an alias, newest first: at most @limit.
select moved_at as at, moved_by as by, moved_from as "from", moved_to as "to"
from umbra.alias_moves
where owner = @owner::text and name = @name::text and alias = @alias::text
order by id desc
limit @limit::text::bigint
