-- The webhooks of job @job_id after @after that were refused, or arrived after the end of their operation, at most @limit, in order. Of each
-- operation only the first @per_operation count: a provider that repeats them must not fill the log. An operation belongs to the owner that
-- claimed it.
select e.id, e.provider, e.external_id, e.received_at, e.verdict, e.reason,
  jsonb_agg(jsonb_build_array(o.node, o.item) order by o.node, o.item) as tasks
from umbra.operations as o
join umbra.jobs as j on j.id = o.job_id
left join umbra.operation_claims as c on c.provider = o.provider and c.external_id = o.external_id
cross join lateral (
  select w.id, w.provider, w.external_id, w.received_at, w.verdict, w.reason
  from umbra.webhook_events as w
  where w.provider = o.provider and w.external_id = o.external_id
    and w.verdict in ('late', 'refused')
  order by w.id
  limit @per_operation::text::bigint
) as e
where o.job_id = @job_id::uuid and (c.owner is null or c.owner = j.owner) and e.id > @after::text::bigint
group by e.id, e.provider, e.external_id, e.received_at, e.verdict, e.reason
order by e.id
limit @limit::text::bigint
