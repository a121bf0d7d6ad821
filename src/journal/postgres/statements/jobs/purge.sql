-- Retention: removes these jobs (@job_ids) with their keys, facts, operations and slots, where the fence (@partitions
-- partitions, @epochs) holds as in append.sql and the job still is one that ended before @before. So a job that was
-- retried meanwhile, by this owner or the next, keeps its history; and so does one that the statistics have not
-- counted. At most @limit facts are removed. The last job
-- that some of them belong to may have more: it becomes an orphan, whose facts purge_facts.sql removes; the jobs
-- after it stay. A pipeline may have millions of rows: pipeline_remove_orphans.sql removes them. Log rows are removed by
-- purge_logs.sql.
with fence as materialized (
  select p.id
  from unnest(@partitions::text::int[], @epochs::text::bigint[]) as f (id, epoch)
  join umbra.partitions as p on p.id = f.id and p.epoch = f.epoch
  order by p.id
  for share of p
),
ended as materialized (
  select j.id, j.seq
  from umbra.jobs as j
  where j.id = any (@job_ids::text::uuid[])
    and j.finished_at < @before::text::bigint
    and j.partition = any (array(select id from fence))
    and j.seq <= (select w.seq from umbra.statistics_watermarks as w where w.partition = j.partition)
    and not exists (select from umbra.held as h where h.held = j.id::text)
  order by j.id
  for update of j
),
page as materialized (
  select id, place, row_number() over () as number
  from (
    select ended.id, l.place
    from ended
    cross join lateral (
      select ctid as place from umbra.journal where job_id = ended.id limit @limit::text::bigint
    ) as l
  ) as f
  limit @limit::text::bigint
),
chosen as materialized (
  select id, seq
  from ended
  where (select count(*) from page) < @limit::text::bigint or id in (select id from page)
),
facts as (
  delete from umbra.journal where ctid = any (array(select place from page))
),
orphans as (
  insert into umbra.journal_orphans (job_id, seq)
  select id, seq from chosen where id = (select id from page where number = @limit::text::bigint)
  on conflict (job_id) do update set seq = excluded.seq
),
jobs as (
  delete from umbra.jobs using chosen where jobs.id = chosen.id returning 1
),
keys as (
  delete from umbra.idempotency_keys using chosen where idempotency_keys.job_id = chosen.id
),
held as (
  delete from umbra.held using chosen where held.by = chosen.id
),
operations as (
  delete from umbra.operations using chosen where operations.job_id = chosen.id
),
logs as (
  insert into umbra.log_orphans (job_id)
  select id from chosen where exists (select from umbra.node_logs as l where l.job_id = chosen.id)
  on conflict do nothing
),
slots as (
  delete from umbra.slots using chosen where slots.job_id = chosen.id
),
executions as (
  update umbra.executions as e
  set is_orphan = true, ended_at = coalesce(e.ended_at, @before::text::bigint)
  from chosen
  where e.job_id = chosen.id
)
select count(*) from jobs
