-- Operations of these partitions ($1) that are no longer needed and whose provider, one of $4, is to be asked
-- to cancel by now ($2).
select o.provider, o.external_id, o.job_id, o.node, o.item, o.attempt, o.cancel_tries as tries, coalesce(j.owner, '') as owner
from umbra.operations as o
left join umbra.jobs as j on j.id = o.job_id
where o.partition = any ($1::text::int[]) and o.cancel_at <= $2::text::bigint and o.provider = any ($4::text::text[])
order by o.cancel_at
limit $3::text::bigint
