-- Removes an alias (@alias) of a workflow (@owner, @name) at @at, by @by, and records that in its history.
-- Returns a row if it existed; also when this same removal was stored before.
with gone as (
  delete from umbra.aliases
  where owner = @owner::text and name = @name::text and alias = @alias::text
  returning targets
),
written as (
  insert into umbra.alias_moves (owner, name, alias, moved_at, moved_by, moved_from, moved_to)
  select @owner::text, @name::text, @alias::text, @at::text::bigint, @by::text, targets, null from gone
)
select 1 from gone
union all
select 1
from umbra.alias_moves
where owner = @owner::text and name = @name::text and alias = @alias::text
  and moved_at = @at::text::bigint and moved_by = @by::text and moved_to is null
