-- Stores a webhook before it is processed. $2 identifies a repeated delivery (null: rejected, every one is
-- new). $3 external id, $4 now, $5 verdict, $6 reason, $7 bytes, $8 news. Returns whether it is new.
with received as (
  insert into umbra.webhook_events (provider, event_id, external_id, received_at, verdict, reason, bytes, news)
  values (
    $1::text, $2::text, $3::text, $4::text::bigint, $5::text, $6::text, $7::text::int, $8::text::json
  )
  on conflict (provider, event_id) do nothing
  returning 1
)
select count(*) from received
