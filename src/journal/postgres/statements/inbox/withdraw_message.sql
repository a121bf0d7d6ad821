-- Withdraws a message unless it has been answered. Waits for an append that is answering it at the moment.
-- The row stays, marked: append.sql refuses to execute it, and a repeated call returns the same.
update umbra.inbox set withdrawn = true where id = @message_id::text::bigint and answer is null returning id
