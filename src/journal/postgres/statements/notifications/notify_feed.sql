-- Notifies the processes with live streams ($1: the content). Outside the append, as notify.sql.
select pg_notify('umbra_feed', $1::text)
