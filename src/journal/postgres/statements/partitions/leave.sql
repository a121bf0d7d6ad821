-- An engine ($1) that has closed is not one that has died: nobody waits for its next beat.
delete from umbra.engines where id = $1::text
