-- As list_artifacts.sql, those that a job (@job_id) refers to. A row of umbra.held has the hash, a space and the owner.
select a.owner, a.hash, a.key, a.bytes, a.name, a.type, a.created_at, a.last_put_at, a.marked_at, a.removed_at
from umbra.held as h
join umbra.artifacts as a on a.owner = @owner::text and a.hash = left(h.held, 71)
where h.by = @job_id::text::uuid and h.held = left(h.held, 71) || ' ' || @owner::text and a.hash > @after::text
order by a.hash
limit @limit::text::bigint
