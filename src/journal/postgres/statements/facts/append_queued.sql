-- append.sql for new jobs of one bulk, which all wait as rows: each has one fact, and the other columns of their rows
-- are equal. What is the same in every row is sent once. Every batch of a large bulk is one of these.
--
-- $1, $2   fences, as in append.sql
-- $3 … $6  ids, partitions, seqs and times of the jobs, as array literals
-- $7       the JSON data of their facts
-- $8       entries of job_marks, as in append.sql
-- $9 …     wake_at, labels, owner, workflow, workflow_version, priority, submitted_by
with fence as materialized (
  select p.id
  from unnest($1::text::int[], $2::text::bigint[]) as f (id, epoch)
  join umbra.partitions as p on p.id = f.id and p.epoch = f.epoch
  order by p.id
  for share of p
),
held as materialized (
  select coalesce(array_agg(id), '{}'::int[]) as ids
  from fence
),
facts as (
  insert into umbra.journal (job_id, seq, at, partition, bytes, type, data)
  select u.id, u.seq, u.at, u.partition, octet_length(u.data), 'job_submitted', u.data::json
  from unnest(
    $3::text::uuid[], $4::text::int[], $5::text::bigint[], $6::text::bigint[], string_to_array($7::text, chr(30))
  ) as u (id, partition, seq, at, data)
  where u.partition = any ((select ids from held)::int[])
  returning 1
),
new_jobs as (
  insert into umbra.jobs (
    id, partition, seq, status, updated_at, wake_at, labels, owner, workflow, workflow_version, priority, created_at,
    submitted_by
  )
  select
    u.id, u.partition, u.seq, 'QUEUED', u.at, $9::text::bigint, $10::text::json, $11::text, $12::text, $13::text::int,
    $14::text::int, u.at, $15::text
  from unnest($3::text::uuid[], $4::text::int[], $5::text::bigint[], $6::text::bigint[])
    as u (id, partition, seq, at)
  where u.partition = any ((select ids from held)::int[])
),
-- Entries may be too many, never too few: those of a partition that is not held do no harm.
marks as (
  insert into umbra.job_marks (mark, place)
  select m.list[i], m.list[i + 1]
  from (select $8::text::bigint[] as list, (select ids from held) as held) as m,
    generate_series(1, cardinality(m.list), 2) as i
  where m.held <> '{}'::int[]
  on conflict do nothing
)
select array_to_string((select ids from held), ',') as held, (select count(*) from facts) as inserted
