-- Retention: removes these jobs ($3) with their facts, operations and slots, where the fence ($1 partitions,
-- $2 epochs) holds as in append.sql and the job still is one that ended before $4. So a job that was retried
-- meanwhile, by this owner or the next, keeps its history. A pipeline may have millions of rows:
-- pipeline_remove_orphans.sql removes them.
with fence as materialized (
  select p.id
  from unnest($1::text::int[], $2::text::bigint[]) as f (id, epoch)
  join umbra.partitions as p on p.id = f.id and p.epoch = f.epoch
  order by p.id
  for share of p
),
ended as materialized (
  select j.id
  from umbra.jobs as j
  where j.id = any ($3::text::uuid[])
    and j.finished_at < $4::text::bigint
    and j.partition in (select id from fence)
  order by j.id
  for update of j
),
facts as (
  delete from umbra.journal using ended where journal.job_id = ended.id
),
jobs as (
  delete from umbra.jobs using ended where jobs.id = ended.id returning 1
),
operations as (
  delete from umbra.operations using ended where operations.job_id = ended.id
),
slots as (
  delete from umbra.slots using ended where slots.job_id = ended.id
),
executions as (
  update umbra.executions as e
  set is_orphan = true, ended_at = coalesce(e.ended_at, $4::text::bigint)
  from ended
  where e.job_id = ended.id
)
select count(*) from jobs
