-- Facts of one job after a seq, oldest first: a range of the primary key, so a page reads as many rows as it has,
-- whatever the size of the job. Data over @inline_bytes bytes stays on disk. @job_id job, @after the last seq that the
-- caller has, @limit, @up_to the last seq to read.
select job_id, seq, at, type, case when bytes <= @inline_bytes::text::bigint then data end as data, bytes
from umbra.journal
where job_id = @job_id::text::uuid and seq > @after::text::bigint and seq <= @up_to::text::bigint
order by seq
limit @limit::text::bigint
