-- Records the outcome of a submission whose job has ended: job @job_id, node @node, item @item, attempt @attempt.
-- @external_id the operation's id, or null: no operation began, or it has ended; @at now. An operation with an id is
-- claimed for the job's owner, and is to be cancelled. One that belongs to another owner, or that is already recorded
-- for the node, is not: its row is removed. Returns the provider and whether there is something to cancel; no row:
-- nothing waits for this outcome.
with submission as materialized (
  select o.provider, o.external_id, j.owner
  from umbra.operations as o
  join umbra.jobs as j on j.id = o.job_id
  where o.job_id = @job_id::text::uuid and o.node = @node::text::int and o.item = @item::text::int
    and o.unseen and o.attempt = @attempt::text::int
  for update of o
),
claimed as (
  insert into umbra.operation_claims as c (provider, external_id, owner, claimed_at)
  select provider, @external_id::text, owner, @at::text::bigint from submission where @external_id::text is not null
  on conflict (provider, external_id) do update set claimed_at = excluded.claimed_at where c.owner = excluded.owner
  returning 1
),
verdict as materialized (
  select exists (select from claimed) and not exists (
    select from umbra.operations as o
    join submission as s on o.provider = s.provider
    where o.external_id = @external_id::text
      and o.job_id = @job_id::text::uuid and o.node = @node::text::int and o.item = @item::text::int
  ) as is_to_cancel
),
named as (
  update umbra.operations as o
  set external_id = @external_id::text, unseen = false, ended_at = @at::text::bigint, cancel_at = @at::text::bigint
  from submission as s
  where o.provider = s.provider and o.external_id = s.external_id
    and o.job_id = @job_id::text::uuid and o.node = @node::text::int and o.item = @item::text::int
    and (select is_to_cancel from verdict)
),
gone as (
  delete from umbra.operations as o
  using submission as s
  where o.provider = s.provider and o.external_id = s.external_id
    and o.job_id = @job_id::text::uuid and o.node = @node::text::int and o.item = @item::text::int
    and not (select is_to_cancel from verdict)
)
select s.provider, (select is_to_cancel from verdict) from submission as s
