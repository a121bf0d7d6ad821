-- The answers of those messages ($1) that have one. The sender of other messages ($2) has read their answers:
-- they are removed.
with forgotten as (
  delete from umbra.inbox where id = any ($2::text::bigint[]) and answer is not null
)
select id, answer from umbra.inbox where id = any ($1::text::bigint[]) and answer is not null
