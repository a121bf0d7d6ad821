-- Removes the aliases of a workflow ($1 owner, $2 name) that was deleted at $3, by $4, and records that in
-- their history. A separate statement, after delete_workflow.sql: only a new snapshot shows an alias that was
-- created while that one waited for it.
with gone as (
  delete from umbra.aliases
  where owner = $1::text and name = $2::text
  returning alias, targets
)
insert into umbra.alias_moves (owner, name, alias, moved_at, moved_by, moved_from, moved_to)
select $1::text, $2::text, alias, $3::text::bigint, $4::text, targets, null from gone
