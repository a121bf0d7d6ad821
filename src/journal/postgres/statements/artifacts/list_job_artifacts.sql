-- As list_artifacts.sql, those that a job ($4) refers to. A row of umbra.held has the hash, a space and the owner.
select a.owner, a.hash, a.key, a.bytes, a.name, a.type, a.created_at, a.last_put_at, a.marked_at, a.removed_at
from umbra.held as h
join umbra.artifacts as a on a.owner = $1::text and a.hash = left(h.held, 71)
where h.by = $4::text::uuid and h.held = left(h.held, 71) || ' ' || $1::text and a.hash > $2::text
order by a.hash
limit $3::text::bigint
