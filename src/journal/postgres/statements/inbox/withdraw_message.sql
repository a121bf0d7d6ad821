-- Takes a message back unless it has been answered. Waits for an append that is answering it right now. The row
-- stays, marked: append.sql refuses to act on it, and asking twice gives the same answer.
update umbra.inbox set withdrawn = true where id = $1::text::bigint and answer is null returning id
