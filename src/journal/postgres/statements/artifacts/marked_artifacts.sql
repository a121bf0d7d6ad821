-- Artifacts that were marked before $1, at most $2.
select a.owner, a.hash, a.key, a.bytes, a.name, a.type, a.created_at, a.last_put_at, a.marked_at, a.removed_at
from umbra.artifacts as a
where a.marked_at < $1::text::bigint
order by a.marked_at
limit $2::text::bigint
