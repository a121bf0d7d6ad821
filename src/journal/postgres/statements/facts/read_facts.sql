-- The facts of some jobs, oldest first per job: the primary key's own order. Data over $2 bytes stays on disk
-- (`bytes` is a column because the size of a `json` value cannot be had without reading all of it). Whoever follows a
-- job gives the seq that it has seen in $3, and -1 for everything.
select job_id, seq, at, type, case when bytes <= $2::text::bigint then data end, bytes
from umbra.journal
where job_id = any ($1::text::uuid[]) and seq > $3::text::bigint
order by job_id, seq
