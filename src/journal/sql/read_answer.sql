-- What became of a message.
select answer from umbra.inbox where id = $1::text::bigint
