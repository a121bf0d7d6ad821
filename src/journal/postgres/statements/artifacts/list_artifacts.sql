-- The artifacts of an owner ($1) after hash $2, at most $3.
select a.owner, a.hash, a.key, a.bytes, a.name, a.type, a.created_at, a.last_put_at, a.marked_at, a.removed_at
from umbra.artifacts as a
where a.owner = $1::text and a.hash > $2::text
order by a.hash
limit $3::text::bigint
