-- Operations of these partitions (@partitions) that are no longer needed and whose provider, one of @providers, is to
-- be asked to cancel by now (@at).
select o.provider, o.external_id, o.job_id, o.node, o.item, o.attempt, o.cancel_tries as tries, coalesce(j.owner, '') as owner
from umbra.operations as o
left join umbra.jobs as j on j.id = o.job_id
where o.partition = any (@partitions::text::int[]) and o.cancel_at <= @at::text::bigint
  and o.provider = any (@providers::text::text[])
order by o.cancel_at
limit @limit::text::bigint
