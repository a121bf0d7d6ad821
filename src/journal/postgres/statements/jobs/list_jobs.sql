-- A part of a page of jobs: reads at most @most jobs of some ranges of ids (@lows lowest, @highs the id behind the last),
-- in the order of the ranges and each newest first, and returns at most @limit that match. The first row, or a row of
-- nulls, has the number of jobs that were read and the last of them. A nested loop keeps this order and stops at
-- the limit. A filter that is null does not apply; @is_root: only jobs without a parent. The duration of a delayed job
-- begins at its start time. A large output (over 32 KB as stored) is
-- left out and flagged: a thousand of them do not fit a page.
--
-- list_jobs: of every owner. list_jobs_of_owner: of one owner (@owner), by the index (owner, id); an optional owner
-- would make one plan serve both, and the page of a rare owner would read every other owner's jobs.
with scanned as materialized (
  select j.id, j.matches
  from unnest(@lows::text::uuid[], @highs::text::uuid[]) as r (low, high)
  cross join lateral (
    select
      id,
      (@statuses::text is null or status = any (@statuses::text::text[]))
        and (@workflow::text is null or workflow = @workflow::text)
        and (@version::text is null or workflow_version = @version::text::int)
        and (@deleted::text::boolean or status <> 'DELETED')
        and (@created_from::text is null or created_at >= @created_from::text::bigint)
        and (@created_before::text is null or created_at < @created_before::text::bigint)
        and (
          @label_names::text is null
          or not exists (
            select
            from unnest(@label_names::text::text[], @label_values::text::text[]) as l (name, value)
            where labels ->> l.name is distinct from l.value
          )
        )
        and (not @is_root::text::boolean or parent_id is null)
        and (@parent_id::text is null or parent_id = @parent_id::text::uuid)
        and (@error_code::text is null or error ->> 'code' = @error_code::text)
        and (@fingerprint::text is null or fingerprint = @fingerprint::text)
        and (not @has_error_text::text::boolean or fingerprint is not null)
        and (
          @min_duration_ms::text is null
          or finished_at - least(finished_at, coalesce((error ->> 'start_at')::bigint, created_at))
            >= @min_duration_ms::text::bigint
        )
        and (@forked_from::text is null or forked_from = @forked_from::text::uuid) as matches
    from umbra.jobs
    where id >= r.low and id < r.high
      -- only in list_jobs_of_owner
      and owner = @owner::text
      -- end
    order by id desc
    limit @most::text::bigint
  ) as j
  limit @most::text::bigint
),
page as materialized (
  select id from scanned where matches limit @limit::text::bigint
)
select
  s.read, s.last, j.id, j.partition, j.seq, j.status, j.updated_at, j.finished_at, j.wake_at,
  case when pg_column_size(j.output) <= 32768 then j.output end as output, j.error, j.fingerprint,
  j.owner, j.workflow, j.workflow_version, j.parent_id, j.labels, j.priority, j.created_at, j.submitted_by,
  j.forked_from, j.definition,
  pg_column_size(j.output) > 32768 as is_large
from (select count(*) as read, min(id::text) as last from scanned) as s
left join (page join umbra.jobs as j using (id)) on true
order by j.id desc
