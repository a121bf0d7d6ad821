-- The position of job @job_id, node @node, item @item among the waiting requests for a slot of provider @provider, from
-- 1, in the order of grant_slots.sql. No row: it does not wait.
with recursive mine as materialized (
  select s.id, coalesce((
    select t.version from umbra.slot_turns as t where t.provider = @provider::text and t.owner = s.owner
  ), 0) as last_turn, (
    select count(*) from umbra.slots as h
    where h.provider = @provider::text and h.owner = s.owner and h.held_until is not null
  ) + (
    select count(*) from umbra.slots as o
    where o.provider = @provider::text and o.owner = s.owner and o.held_until is null and o.id <= s.id
  ) as turn
  from umbra.slots as s
  where s.provider = @provider::text and s.job_id = @job_id::text::uuid and s.node = @node::text::int and s.item = @item::text::int
    and s.held_until is null
),
waiting (owner) as (
  select min(s.owner) from umbra.slots as s where s.provider = @provider::text and s.held_until is null
  union all
  select (
    select min(s.owner) from umbra.slots as s
    where s.provider = @provider::text and s.held_until is null and s.owner > w.owner
  )
  from waiting as w
  where w.owner is not null
)
select (
  select sum(ahead.number)
  from waiting as w
  cross join lateral (
    select count(*) as held from umbra.slots as h
    where h.provider = @provider::text and h.owner = w.owner and h.held_until is not null
  ) as of_owner
  left join umbra.slot_turns as t on t.provider = @provider::text and t.owner = w.owner
  cross join lateral (
    select count(*) filter (
      where l.place + of_owner.held < mine.turn or (coalesce(t.version, 0), l.id) <= (mine.last_turn, mine.id)
    ) as number
    from (
      select s.id, row_number() over (order by s.id) as place
      from umbra.slots as s
      where s.provider = @provider::text and s.owner = w.owner and s.held_until is null
      order by s.id
      limit greatest(0, mine.turn - of_owner.held)
    ) as l
  ) as ahead
  where w.owner is not null
) as position
from mine
