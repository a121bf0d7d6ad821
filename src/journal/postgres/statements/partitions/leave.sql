-- Removes an engine ($1) that has closed, so that it is not considered dead: no peer waits for its next
-- heartbeat.
delete from umbra.engines where id = $1::text
