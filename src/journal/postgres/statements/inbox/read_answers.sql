-- The answers of those messages (@message_ids) that have one. The sender of other messages (@forget) has read their answers:
-- they are removed.
with forgotten as (
  delete from umbra.inbox where id = any (@forget::text::bigint[]) and answer is not null
)
select id, answer from umbra.inbox where id = any (@message_ids::text::bigint[]) and answer is not null
