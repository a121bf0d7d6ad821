-- Stores a webhook before it is processed. @event_id identifies a repeated delivery (null: rejected, every one is
-- new). @external_id external id, @received_at now, @verdict, @reason, @bytes, @news. Returns whether it is new.
with received as (
  insert into umbra.webhook_events (provider, event_id, external_id, received_at, verdict, reason, bytes, news)
  values (
    @provider::text, @event_id::text, @external_id::text, @received_at::text::bigint, @verdict::text,
    @reason::text, @bytes::text::int, @news::text::json
  )
  on conflict (provider, event_id) do nothing
  returning 1
)
select count(*) from received
