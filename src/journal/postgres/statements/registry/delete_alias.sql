-- Removes an alias ($3) of a workflow ($1 owner, $2 name) at $4, by $5, and records that in its history.
-- Returns a row if it existed; also when this same removal was stored before.
with gone as (
  delete from umbra.aliases
  where owner = $1::text and name = $2::text and alias = $3::text
  returning targets
),
written as (
  insert into umbra.alias_moves (owner, name, alias, moved_at, moved_by, moved_from, moved_to)
  select $1::text, $2::text, $3::text, $4::text::bigint, $5::text, targets, null from gone
)
select 1 from gone
union all
select 1
from umbra.alias_moves
where owner = $1::text and name = $2::text and alias = $3::text
  and moved_at = $4::text::bigint and moved_by = $5::text and moved_to is null
