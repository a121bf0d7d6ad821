-- Notifies the processes with live streams (@payload: the content). Outside the append, as notify.sql.
select pg_notify('umbra_feed', @payload::text)
