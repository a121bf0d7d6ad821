-- Artifacts that were marked before @before, at most @limit.
select a.owner, a.hash, a.key, a.bytes, a.name, a.type, a.created_at, a.last_put_at, a.marked_at, a.removed_at
from umbra.artifacts as a
where a.marked_at < @before::text::bigint
order by a.marked_at
limit @limit::text::bigint
