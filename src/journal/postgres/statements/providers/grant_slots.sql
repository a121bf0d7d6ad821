-- Grants free slots of provider @provider to waiting requests. @version, @limit, @at now, @lease_ms lease in ms; @jobs, @nodes,
-- @items jobs, nodes and items of the callers, which learn of a grant from the result; the others are notified by
-- a message to their partition. @limit_per_owner limit per owner, or null.
--
-- Owners take turns: the next slot goes to the owner that holds the fewest; among equals to the one whose
-- last turn was longest ago (slot_turns); and within an owner to the first request. Waiting requests are read
-- owner by owner, each no further than there are slots to grant: a long queue costs no more than a short one.
--
-- `fence` makes the count right: leases granted after this statement's snapshot have raised the version, and
-- then it updates no row and nothing is written. With nothing to grant the version stays: a concurrent count
-- need not be repeated. A waiting request that is being released at the moment is skipped, never waited for:
-- so an append, which releases, and a grant cannot wait for each other. A lease that has ended is removed if
-- its operation continues; otherwise its node may still need it, and the request waits again: a node that no
-- longer needs the slot returns it when it is notified of the grant.
with recursive held as materialized (
  select h.owner, count(*) as number
  from (
    select s.owner from umbra.slots as s where s.provider = @provider::text and s.held_until > @at::text::bigint
    union all
    -- Of jobs that have ended: being cancelled, or unseen.
    select coalesce(j.owner, '')
    from umbra.operations as o
    left join umbra.jobs as j on j.id = o.job_id
    where o.provider = @provider::text and o.slot_until > @at::text::bigint
  ) as h
  group by h.owner
),
free as materialized (
  select greatest(0, @limit::text::bigint - coalesce(sum(number), 0))::bigint as number from held
),
waiting (owner) as (
  select min(s.owner) from umbra.slots as s
  where s.provider = @provider::text and s.held_until is null and (select number from free) > 0
  union all
  select (
    select min(s.owner) from umbra.slots as s
    where s.provider = @provider::text and s.held_until is null and s.owner > w.owner
  )
  from waiting as w
  where w.owner is not null
),
line as materialized (
  select l.job_id, l.node, l.item, l.id, coalesce(h.number, 0) + l.place as turn, coalesce(t.version, 0) as last_turn
  from waiting as w
  left join held as h on h.owner = w.owner
  left join umbra.slot_turns as t on t.provider = @provider::text and t.owner = w.owner
  cross join lateral (
    select s.job_id, s.node, s.item, s.id, row_number() over (order by s.id) as place
    from umbra.slots as s
    where s.provider = @provider::text and s.owner = w.owner and s.held_until is null
    order by s.id
    -- `least` passes over a null.
    limit greatest(0, least((select number from free), @limit_per_owner::text::bigint - coalesce(h.number, 0)))
  ) as l
  where w.owner is not null
),
wanted as materialized (
  select exists (select from line) as is_so
),
fence as materialized (
  update umbra.providers set version = version + 1
  where name = @provider::text and version = @version::text::bigint and (select is_so from wanted)
  returning 1
),
ended as materialized (
  select s.job_id, s.node, s.item, exists (
    select from umbra.operations as o
    where o.job_id = s.job_id and o.node = s.node and o.item = s.item and o.ended_at is null and not o.unseen
  ) as is_running
  from umbra.slots as s
  where s.provider = @provider::text and s.held_until <= @at::text::bigint and exists (select from fence)
),
forgotten as (
  delete from umbra.slots as s
  using ended as e
  where s.provider = @provider::text and s.job_id = e.job_id and s.node = e.node and s.item = e.item
    and s.held_until <= @at::text::bigint and e.is_running
),
waiting_anew as (
  update umbra.slots as s
  set id = default, granted_at = null, held_until = null
  from ended as e
  where s.provider = @provider::text and s.job_id = e.job_id and s.node = e.node and s.item = e.item
    and s.held_until <= @at::text::bigint and not e.is_running
),
next as materialized (
  select s.job_id, s.node, s.item
  from (select * from line order by turn, last_turn, id limit (select number from free)) as l
  join umbra.slots as s
    on s.provider = @provider::text and s.job_id = l.job_id and s.node = l.node and s.item = l.item
  where s.held_until is null and exists (select from fence)
  for update of s skip locked
),
granted as (
  update umbra.slots as s
  set granted_at = @at::text::bigint, held_until = @at::text::bigint + @lease_ms::text::bigint
  from next
  where s.provider = @provider::text and s.job_id = next.job_id and s.node = next.node and s.item = next.item
  returning s.id, s.job_id, s.node, s.item, s.partition, s.owner
),
turns as (
  insert into umbra.slot_turns (provider, owner, version)
  select distinct @provider::text, g.owner, @version::text::bigint + 1 from granted as g
  on conflict (provider, owner) do update set version = excluded.version
),
told as (
  insert into umbra.inbox (partition, job_id, sent_at, cause, kind, node, item)
  select
    g.partition, g.job_id, @at::text::bigint, 'slot/' || g.id || '/' || @at::text, 'grant_slot', g.node, g.item
  from granted as g
  where not exists (
    select from unnest(@jobs::text::uuid[], @nodes::text::int[], @items::text::int[]) as a (job_id, node, item)
    where a.job_id = g.job_id and a.node = g.node and a.item = g.item
  )
  on conflict (cause) do nothing
)
select
  exists (select from fence) or not (select is_so from wanted) as is_settled,
  (
    select coalesce(
      jsonb_agg(jsonb_build_object('jobId', job_id, 'node', node, 'item', item, 'partition', partition)), '[]'
    )
    from granted
  ) as granted
