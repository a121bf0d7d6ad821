-- Facts of one job after a seq, oldest first: a range of the primary key, so a page reads as many rows as it
-- has, whatever the size of the job. Data over $4 bytes stays on disk. $1 job, $2 the last seq that the caller
-- has, $3 limit, $5 the last seq to read.
select job_id, seq, at, type, case when bytes <= $4::text::bigint then data end as data, bytes
from umbra.journal
where job_id = $1::text::uuid and seq > $2::text::bigint and seq <= $5::text::bigint
order by seq
limit $3::text::bigint
