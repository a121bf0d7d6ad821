-- A part of a page of jobs: reads at most $3 jobs of some ranges of ids ($1 lowest, $2 the id behind the last),
-- in the order of the ranges and each newest first, and returns at most $4 that match. The first row, or a row of
-- nulls, has the number of jobs that were read and the last of them. A nested loop keeps this order and stops at
-- the limit. $5 statuses, $6 workflow, $7 version, $8 show DELETED, $9, $10 created from and before, $11, $12
-- names and values of labels, $13 only jobs without a parent, $14 parent, $15 code of the error, $16 fingerprint,
-- $17 only jobs with a fingerprint, $18 duration in ms (of a delayed job: since its start time), $19 origin of a fork (each
-- may be null). A large output (over 32 KB as stored) is
-- left out and flagged: a thousand of them do not fit a page.
--
-- list_jobs: of every owner. list_jobs_of_owner: of one owner ($20), by the index (owner, id); an optional owner
-- would make one plan serve both, and the page of a rare owner would read every other owner's jobs.
with scanned as materialized (
  select j.id, j.matches
  from unnest($1::text::uuid[], $2::text::uuid[]) as r (low, high)
  cross join lateral (
    select
      id,
      ($5::text is null or status = any ($5::text::text[]))
        and ($6::text is null or workflow = $6::text)
        and ($7::text is null or workflow_version = $7::text::int)
        and ($8::text::boolean or status <> 'DELETED')
        and ($9::text is null or created_at >= $9::text::bigint)
        and ($10::text is null or created_at < $10::text::bigint)
        and (
          $11::text is null
          or not exists (
            select
            from unnest($11::text::text[], $12::text::text[]) as l (name, value)
            where labels ->> l.name is distinct from l.value
          )
        )
        and (not $13::text::boolean or parent_id is null)
        and ($14::text is null or parent_id = $14::text::uuid)
        and ($15::text is null or error ->> 'code' = $15::text)
        and ($16::text is null or fingerprint = $16::text)
        and (not $17::text::boolean or fingerprint is not null)
        and (
          $18::text is null
          or finished_at - least(finished_at, coalesce((error ->> 'start_at')::bigint, created_at))
            >= $18::text::bigint
        )
        and ($19::text is null or forked_from = $19::text::uuid) as matches
    from umbra.jobs
    where id >= r.low and id < r.high
      -- only in list_jobs_of_owner
      and owner = $20::text
      -- end
    order by id desc
    limit $3::text::bigint
  ) as j
  limit $3::text::bigint
),
page as materialized (
  select id from scanned where matches limit $4::text::bigint
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
