-- The last webhooks of provider $1, newest first.
select event_id, external_id, received_at, verdict, reason, bytes
from umbra.webhook_events
where provider = $1::text
order by id desc
limit $2::text::bigint
