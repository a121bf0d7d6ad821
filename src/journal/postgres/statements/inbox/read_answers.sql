-- What became of messages ($1): those that have an answer. The sender of others ($2) has read theirs: they are gone.
with forgotten as (
  delete from umbra.inbox where id = any ($2::text::bigint[]) and answer is not null
)
select id, answer from umbra.inbox where id = any ($1::text::bigint[]) and answer is not null
