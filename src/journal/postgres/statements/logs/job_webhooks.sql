-- The webhooks of job $1 after $2 that were refused, or arrived after the end of their operation, at most $3, in order. Of each
-- operation only the first $4 count: a provider that repeats them must not fill the log. An operation belongs to the owner that
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
  limit $4::text::bigint
) as e
where o.job_id = $1::uuid and (c.owner is null or c.owner = j.owner) and e.id > $2::text::bigint
group by e.id, e.provider, e.external_id, e.received_at, e.verdict, e.reason
order by e.id
limit $3::text::bigint
