-- Open messages of these partitions ($1), in the order in which they were sent.
select id, partition, job_id, command, sent_at
from umbra.inbox
where partition = any ($1::text::int[]) and answer is null and not withdrawn
order by id
limit $2::text::bigint
