-- Open messages of these partitions (@partitions), in the order in which they were sent. A message with a kind has its
-- content in columns; its `command` is for earlier releases.
select id, partition, job_id, sent_at, case when kind is null then command end as command, kind, node, item, news
from umbra.inbox
where partition = any (@partitions::text::int[]) and answer is null and not withdrawn
order by id
limit @limit::text::bigint
