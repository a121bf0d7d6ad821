-- The facts of some jobs, oldest first per job: the order of the primary key. Data over @inline_bytes bytes stays on
-- disk (`bytes` is a column because PostgreSQL would have to read the whole `json` value to get its size).
-- @after: the last seq that the caller has seen; -1 for everything. Facts of a job that retention has removed, and
-- that are yet to be removed, do not exist.
select f.job_id, f.seq, f.at, f.type, case when f.bytes <= @inline_bytes::text::bigint then f.data end as data, f.bytes
from (select distinct id from unnest(@job_ids::text::uuid[]) as u (id)) as asked
left join umbra.journal_orphans as o on o.job_id = asked.id
cross join lateral (
  select job_id, seq, at, type, data, bytes
  from umbra.journal
  where job_id = asked.id and seq > greatest(@after::text::bigint, o.seq)
  offset 0
) as f
order by f.job_id, f.seq
