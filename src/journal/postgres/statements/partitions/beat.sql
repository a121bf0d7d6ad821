-- Stores the heartbeat of an engine, and returns in the same round trip all that it needs to know: the
-- heartbeats of the others, the owners of partitions, which of its own partitions have open messages, and when
-- the next schedule in one of them fires.
with me as (
  insert into umbra.engines (id, place, beat, follows)
  values (@engine::text, @place::text, @beat::text::bigint, @follows::text::boolean)
  on conflict (id) do update set place = excluded.place, beat = excluded.beat, follows = excluded.follows
)
select
  (
    select coalesce(jsonb_agg(jsonb_build_object('engine', id, 'place', place, 'beat', beat, 'follows', follows)), '[]')
    from umbra.engines
    where id <> @engine::text
  ) as engines,
  (
    select jsonb_agg(jsonb_build_object('partition', id, 'owner', owner, 'epoch', epoch) order by id)
    from umbra.partitions
  ) as partitions,
  (
    select coalesce(jsonb_agg(p.id order by p.id), '[]')
    from umbra.partitions as p
    where p.owner = @engine::text
      and exists (select from umbra.inbox as i where i.partition = p.id and i.answer is null and not i.withdrawn)
  ) as inbox,
  (
    select min(s.next_at)
    from umbra.partitions as p
    cross join lateral (
      select next_at from umbra.schedules
      where partition = p.id and next_at is not null
      order by next_at
      limit 1
    ) as s
    where p.owner = @engine::text
  ) as next_fire_at
