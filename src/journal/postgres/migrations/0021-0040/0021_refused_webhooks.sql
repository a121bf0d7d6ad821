-- Webhooks that the log of a job shows: those of its operations that were refused, or arrived too late.
create index webhook_events_refused on umbra.webhook_events (provider, external_id, id)
  where verdict in ('late', 'refused') and external_id is not null;
