-- Removes rows that belong to no existing job, at most @limit of each kind: claims of operations, definitions, settled
-- messages, webhooks and outcomes of ticks older than @before, parked ones older than @unsettled_before; and engines
-- that own nothing and whose heartbeat has not changed since the last time, nor since @silent_since (an engine that is
-- alive after all returns with its next heartbeat). Returns the largest number of one kind.
with settled as (
  delete from umbra.inbox
  where ctid = any (array(
    select ctid from umbra.inbox
    where sent_at < @before::text::bigint and (answer is not null or withdrawn)
    order by id
    limit @limit::text::bigint
  ))
  returning 1
),
claims as (
  delete from umbra.operation_claims
  where ctid = any (array(
    select c.ctid from umbra.operation_claims as c
    where c.claimed_at < @before::text::bigint
      and not exists (
        select from umbra.operations as o where o.provider = c.provider and o.external_id = c.external_id
      )
    order by c.claimed_at
    limit @limit::text::bigint
  ))
  returning 1
),
events as (
  delete from umbra.webhook_events
  where ctid = any (array(
    select ctid from umbra.webhook_events
    where received_at < @before::text::bigint and (verdict <> 'parked' or received_at < @unsettled_before::text::bigint)
    order by received_at
    limit @limit::text::bigint
  ))
  returning 1
),
definitions as (
  delete from umbra.definitions as d
  where d.hash = any (array(
    select o.hash from umbra.definitions as o
    where o.used_at < @before::text::bigint and not exists (select from umbra.held as h where h.held = o.hash)
    limit @limit::text::bigint
  ))
    and d.used_at < @before::text::bigint
  returning 1
),
outcomes as (
  delete from umbra.fires
  where ctid = any (array(
    select ctid from umbra.fires where at < @before::text::bigint order by at limit @limit::text::bigint
  ))
  returning 1
),
dead as (
  delete from umbra.engines as e
  where e.beat = e.purged_beat
    and e.beat <= @silent_since::text::bigint
    and not exists (select from umbra.partitions as p where p.owner = e.id)
),
alive as (
  update umbra.engines as e set purged_beat = e.beat where e.beat is distinct from e.purged_beat
)
select greatest(
  (select count(*) from settled), (select count(*) from claims), (select count(*) from events),
  (select count(*) from definitions), (select count(*) from outcomes)
) as removed
