-- The moves of an alias, newest first: at most $4.
select moved_at as at, moved_by as by, moved_from as "from", moved_to as "to"
from umbra.alias_moves
where owner = $1::text and name = $2::text and alias = $3::text
order by id desc
limit $4::text::bigint
