-- These dead letters of execution $1 (routes $2, seqs $3) become those that job $4 replays, at $5. One that another job
-- has is passed over, unless that job is not there after $6 ms. Locked in the order of their keys.
with source as materialized (
  -- Held, so that retention does not remove it meanwhile.
  select id from umbra.executions where id = $1::text::bigint and not is_orphan for key share
),
wanted as materialized (
  select p.route, p.seq
  from source
  cross join (select distinct route, seq from unnest($2::text::smallint[], $3::text::bigint[]) as u (route, seq)) as k
  join umbra.pipeline_parked as p on p.execution = source.id and p.route = k.route and p.seq = k.seq
  where p.due_at is null
    and (
      p.replayed_by is null
      or (
        p.replayed_by <> $4::text::uuid
        and p.replayed_at <= $5::text::bigint - $6::text::bigint
        and not exists (select from umbra.jobs as j where j.id = p.replayed_by)
      )
    )
  order by p.route, p.seq
  for update of p
)
update umbra.pipeline_parked as p
set replayed_by = $4::text::uuid, replayed_at = $5::text::bigint
from wanted
where p.execution = $1::text::bigint and p.route = wanted.route and p.seq = wanted.seq
