-- The last webhooks of provider @provider, newest first.
select event_id, external_id, received_at, verdict, reason, bytes
from umbra.webhook_events
where provider = @provider::text
order by id desc
limit @limit::text::bigint
