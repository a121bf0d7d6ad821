-- Removes the session with this hash.
delete from umbra.sessions where hash = $1::text
