-- Removes rows that belong to no existing job: keys, claims of operations, settled messages and webhooks
-- older than $1, parked ones older than $3; and engines that own nothing and whose heartbeat has not changed
-- since the last time, nor since $2 (an engine that is alive after all returns with its next heartbeat).
with keys as (
  delete from umbra.idempotency_keys as k
  where k.created_at < $1::text::bigint and not exists (select from umbra.jobs as j where j.id = k.job_id)
),
settled as (
  delete from umbra.inbox where sent_at < $1::text::bigint and (answer is not null or withdrawn)
),
claims as (
  delete from umbra.operation_claims as c
  where c.claimed_at < $1::text::bigint
    and not exists (
      select from umbra.operations as o where o.provider = c.provider and o.external_id = c.external_id
    )
),
events as (
  delete from umbra.webhook_events
  where received_at < $1::text::bigint and (verdict <> 'parked' or received_at < $3::text::bigint)
),
dead as (
  delete from umbra.engines as e
  where e.beat = e.purged_beat
    and e.beat <= $2::text::bigint
    and not exists (select from umbra.partitions as p where p.owner = e.id)
)
update umbra.engines as e set purged_beat = e.beat where e.beat is distinct from e.purged_beat
