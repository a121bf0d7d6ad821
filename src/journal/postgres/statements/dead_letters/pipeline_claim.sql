-- Claims a place for the execution of job @job_id at @at: at most @limit places are taken, and one whose job does not
-- exist counts for @claim_ms ms. @version: the version under which `open` counts. A place that was granted since has
-- raised the version; then this statement writes nothing and returns no row. An execution that already has
-- its place keeps it.
--
-- A place is taken while its job has not ended, whether or not the end of the execution was recorded. A claim
-- that is younger than the job's end belongs to a retry that is about to be stored.
with taken as materialized (
  select e.id, e.job_id
  from umbra.executions as e
  left join umbra.jobs as j on j.id = e.job_id
  where e.ended_at is null
    and not e.is_orphan
    and case
      when j.id is not null and j.finished_at is null then true
      else e.claimed_at > @at::text::bigint - @claim_ms::text::bigint and e.claimed_at > coalesce(j.finished_at, -1)
    end
),
held as materialized (
  select id from taken where job_id = @job_id::text::uuid
),
is_full as materialized (
  select count(*) >= @limit::text::bigint as so from taken
),
fence as materialized (
  update umbra.execution_claims
  set version = version + 1
  where id = 1
    and version = @version::text::bigint
    and not (select so from is_full)
    and not exists (select from held)
  returning 1
),
claimed as (
  insert into umbra.executions (job_id, claimed_at)
  select @job_id::text::uuid, @at::text::bigint from fence
  on conflict (job_id) do update set claimed_at = excluded.claimed_at, ended_at = null, is_trimmed = false
  returning id
)
select id from held
union all
select id from claimed
union all
select null where (select so from is_full) and not exists (select from held)
