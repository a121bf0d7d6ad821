-- Operations of these partitions ($1) that nobody wants any more and whose provider, one of $4, is to be told by now ($2).
select provider, external_id, job_id, node, item, attempt, cancel_tries
from umbra.operations
where partition = any ($1::text::int[]) and cancel_at <= $2::text::bigint and provider = any ($4::text::text[])
order by cancel_at
limit $3::text::bigint
