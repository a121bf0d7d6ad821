-- Gives free slots of provider $1 to those who wait, in order. $2 version, $3 limit, $4 now, $5 lease in ms;
-- $6, $7, $8 jobs, nodes and items of those who ask: told by the answer; the others by a message to their partition.
--
-- `fence` makes the count right: leases granted after this statement's snapshot have raised the version, and then it
-- updates no row and nothing is written. With nothing to give the version stays: whoever counts at the same time need
-- not count again. Who waits and is being released right now is passed over, never waited for: so an append, which
-- releases, and a grant cannot wait for each other. A lease that has ended is gone if its operation runs on; else its
-- node may want it yet, and waits anew: told of the grant, one that does not gives it back.
with free as materialized (
  select greatest(0, $3::text::bigint - count(*)) as number
  from umbra.slots
  where provider = $1::text and held_until > $4::text::bigint
),
wanted as materialized (
  select (select number from free) > 0
    and exists (select from umbra.slots where provider = $1::text and held_until is null) as is_so
),
fence as materialized (
  update umbra.providers set version = version + 1
  where name = $1::text and version = $2::text::bigint and (select is_so from wanted)
  returning 1
),
ended as materialized (
  select s.job_id, s.node, s.item, exists (
    select from umbra.operations as o
    where o.job_id = s.job_id and o.node = s.node and o.item = s.item and o.ended_at is null
  ) as is_running
  from umbra.slots as s
  where s.provider = $1::text and s.held_until <= $4::text::bigint and exists (select from fence)
),
forgotten as (
  delete from umbra.slots as s
  using ended as e
  where s.provider = $1::text and s.job_id = e.job_id and s.node = e.node and s.item = e.item
    and s.held_until <= $4::text::bigint and e.is_running
),
waiting_anew as (
  update umbra.slots as s
  set id = default, granted_at = null, held_until = null
  from ended as e
  where s.provider = $1::text and s.job_id = e.job_id and s.node = e.node and s.item = e.item
    and s.held_until <= $4::text::bigint and not e.is_running
),
next as materialized (
  select s.job_id, s.node, s.item
  from umbra.slots as s
  where s.provider = $1::text and s.held_until is null and exists (select from fence)
  order by s.id
  limit (select number from free)
  for update of s skip locked
),
granted as (
  update umbra.slots as s
  set granted_at = $4::text::bigint, held_until = $4::text::bigint + $5::text::bigint
  from next
  where s.provider = $1::text and s.job_id = next.job_id and s.node = next.node and s.item = next.item
  returning s.id, s.job_id, s.node, s.item, s.partition
),
told as (
  insert into umbra.inbox (partition, job_id, sent_at, cause, command)
  select
    g.partition, g.job_id, $4::text::bigint, 'slot/' || g.id || '/' || $4::text,
    ('{"type":"grant_slot","node":' || g.node || case when g.item >= 0 then ',"item":' || g.item else '' end || '}')::json
  from granted as g
  where not exists (
    select from unnest($6::text::uuid[], $7::text::int[], $8::text::int[]) as a (job_id, node, item)
    where a.job_id = g.job_id and a.node = g.node and a.item = g.item
  )
  on conflict (cause) do nothing
)
select 'settled', null::text, null::text, null::text, null::text
where exists (select from fence) or not (select is_so from wanted)
union all
select 'granted', job_id::text, node::text, item::text, partition::text from granted
