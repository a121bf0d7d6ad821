-- append.sql for a batch of one fact: what an engine under light load sends, where every microsecond is latency.
-- $1, $2 the fence: partition and epoch; $3 job, $4 seq, $5 at, $6 type, $7 data.
with fence as materialized (
  select id from umbra.partitions where id = $1::text::int and epoch = $2::text::bigint for share
),
facts as (
  insert into umbra.journal (job_id, seq, at, partition, bytes, type, data)
  select
    $3::text::uuid, $4::text::bigint, $5::text::bigint, fence.id, octet_length($7::text), $6::text, $7::text::json
  from fence
  on conflict do nothing
  returning 1
)
select coalesce((select id::text from fence), ''), (select count(*) from facts)
