-- Removes the aliases of a workflow (@owner, @name) that was deleted at @at, by @by, and records that in
-- their history. A separate statement, after delete_workflow.sql: only a new snapshot shows an alias that was
-- created while that one waited for it.
with gone as (
  delete from umbra.aliases
  where owner = @owner::text and name = @name::text
  returning alias, targets
)
insert into umbra.alias_moves (owner, name, alias, moved_at, moved_by, moved_from, moved_to)
select @owner::text, @name::text, alias, @at::text::bigint, @by::text, targets, null from gone
