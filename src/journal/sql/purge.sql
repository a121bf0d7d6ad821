-- Retention: at most $3 jobs that ended before $1, with their facts; keys and settled messages older than $2;
-- engines that own nothing and whose beat has not moved since the last purge (one that lives after all comes back
-- with its next beat). A child stays as long as its parent, which may be retried and ask for its output.
with ended as materialized (
  select j.id
  from umbra.jobs as j
  where j.finished_at < $1::text::bigint
    and not exists (select from umbra.jobs as p where p.id = j.parent_id)
  order by j.finished_at
  limit $3::text::bigint
  for update of j skip locked
),
facts as (
  delete from umbra.journal using ended where journal.job_id = ended.id
),
jobs as (
  delete from umbra.jobs using ended where jobs.id = ended.id returning 1
),
keys as (
  delete from umbra.idempotency_keys where created_at < $2::text::bigint
),
settled as (
  delete from umbra.inbox where sent_at < $2::text::bigint and (answer is not null or withdrawn)
),
dead as (
  delete from umbra.engines as e
  where e.beat = e.purged_beat and not exists (select from umbra.partitions as p where p.owner = e.id)
),
seen as (
  update umbra.engines as e set purged_beat = e.beat where e.beat is distinct from e.purged_beat
)
select count(*) from jobs
