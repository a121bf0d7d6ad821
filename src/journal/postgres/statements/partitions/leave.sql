-- Removes an engine (@engine) that has closed, so that it is not considered dead: no peer waits for its next
-- heartbeat.
delete from umbra.engines where id = @engine::text
