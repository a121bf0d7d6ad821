-- Stores the heartbeat of an engine, and returns in the same round trip all that it needs to know: the
-- heartbeats of the others, the owners of partitions, and which of its own partitions have open messages. One
-- list, distinguished by the first column.
with me as (
  insert into umbra.engines (id, place, beat, follows)
  values ($1::text, $2::text, $3::text::bigint, $4::text::boolean)
  on conflict (id) do update set place = excluded.place, beat = excluded.beat, follows = excluded.follows
)
select 'engine', id, place, beat, follows from umbra.engines where id <> $1::text
union all
select 'partition', id::text, owner, epoch, null from umbra.partitions
union all
select 'inbox', p.id::text, null, null, null
from umbra.partitions as p
where p.owner = $1::text
  and exists (select from umbra.inbox as i where i.partition = p.id and i.answer is null and not i.withdrawn)
