-- Delivers parked webhooks whose operation is known by now: each becomes a message to its job, or is late. @provider
-- provider and @external_id external id, or both null for all; @at now. Webhook and submission both run this after their
-- commit: the second to commit finds the other; of two at once one waits, and then finds nothing parked. Only
-- jobs of the owner that has the operation are notified.
with parked as materialized (
  select e.id, e.provider, e.external_id, e.news
  from umbra.webhook_events as e
  where e.verdict = 'parked'
    and (@provider::text is null or (e.provider = @provider::text and e.external_id = @external_id::text))
    and exists (
      select from umbra.operations as o where o.provider = e.provider and o.external_id = e.external_id
    )
  order by e.id
  for update of e
),
found as materialized (
  select p.id, p.news, o.job_id, o.node, o.item, o.partition, o.ended_at
  from parked as p
  join umbra.operations as o on o.provider = p.provider and o.external_id = p.external_id
  left join umbra.jobs as j on j.id = o.job_id
  left join umbra.operation_claims as c on c.provider = p.provider and c.external_id = p.external_id
  -- An earlier release records operations without a claim.
  where c.owner is null or c.owner = j.owner
  order by p.id
),
told as (
  insert into umbra.inbox (partition, job_id, sent_at, cause, kind, node, item, news)
  select
    f.partition, f.job_id, @at::text::bigint,
    'webhook/' || f.id || '/' || f.job_id || '/' || f.node || case when f.item >= 0 then '/' || f.item else '' end,
    'external', f.node, f.item, f.news
  from found as f
  where f.ended_at is null
  on conflict (cause) do nothing
),
settled as (
  update umbra.webhook_events as e
  set verdict = case
    when exists (select from found as f where f.id = e.id and f.ended_at is null) then 'delivered' else 'late'
  end
  from parked
  where e.id = parked.id
)
select distinct partition from found where ended_at is null
