-- The facts of some jobs, oldest first per job: the order of the primary key. Data over $2 bytes stays on
-- disk (`bytes` is a column because PostgreSQL would have to read the whole `json` value to get its size).
-- $3: the last seq that the caller has seen; -1 for everything.
select job_id, seq, at, type, case when bytes <= $2::text::bigint then data end as data, bytes
from umbra.journal
where job_id = any ($1::text::uuid[]) and seq > $3::text::bigint
order by job_id, seq
