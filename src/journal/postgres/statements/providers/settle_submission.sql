-- Records the outcome of a submission whose job has ended: job $1, node $2, item $3, attempt $4. $5 the
-- operation's id, or null: no operation began, or it has ended; $6 now. An operation with an id is claimed
-- for the job's owner, and is to be cancelled. One that belongs to another owner, or that is already recorded
-- for the node, is not: its row is removed. Returns the provider and whether there is something to cancel; no
-- row: nothing waits for this outcome.
with submission as materialized (
  select o.provider, o.external_id, j.owner
  from umbra.operations as o
  join umbra.jobs as j on j.id = o.job_id
  where o.job_id = $1::text::uuid and o.node = $2::text::int and o.item = $3::text::int
    and o.unseen and o.attempt = $4::text::int
  for update of o
),
claimed as (
  insert into umbra.operation_claims as c (provider, external_id, owner, claimed_at)
  select provider, $5::text, owner, $6::text::bigint from submission where $5::text is not null
  on conflict (provider, external_id) do update set claimed_at = excluded.claimed_at where c.owner = excluded.owner
  returning 1
),
verdict as materialized (
  select exists (select from claimed) and not exists (
    select from umbra.operations as o
    join submission as s on o.provider = s.provider
    where o.external_id = $5::text
      and o.job_id = $1::text::uuid and o.node = $2::text::int and o.item = $3::text::int
  ) as is_to_cancel
),
named as (
  update umbra.operations as o
  set external_id = $5::text, unseen = false, ended_at = $6::text::bigint, cancel_at = $6::text::bigint
  from submission as s
  where o.provider = s.provider and o.external_id = s.external_id
    and o.job_id = $1::text::uuid and o.node = $2::text::int and o.item = $3::text::int
    and (select is_to_cancel from verdict)
),
gone as (
  delete from umbra.operations as o
  using submission as s
  where o.provider = s.provider and o.external_id = s.external_id
    and o.job_id = $1::text::uuid and o.node = $2::text::int and o.item = $3::text::int
    and not (select is_to_cancel from verdict)
)
select s.provider, (select is_to_cancel from verdict) from submission as s
