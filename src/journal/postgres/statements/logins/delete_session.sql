-- Removes the session with this hash.
delete from umbra.sessions where hash = @hash::text
