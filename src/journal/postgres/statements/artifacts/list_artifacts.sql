-- The artifacts of an owner (@owner) after hash @after, at most @limit.
select a.owner, a.hash, a.key, a.bytes, a.name, a.type, a.created_at, a.last_put_at, a.marked_at, a.removed_at
from umbra.artifacts as a
where a.owner = @owner::text and a.hash > @after::text
order by a.hash
limit @limit::text::bigint
