-- Deletes a workflow ($1 owner, $2 name) at $3, by $4: its versions stay for the jobs that run on them, its aliases go,
-- and their history says so. No row: there was nothing to delete.
with versions as (
  update umbra.workflows
  set deleted_at = $3::text::bigint
  where owner = $1::text and name = $2::text and deleted_at is null
  returning version
),
gone as (
  delete from umbra.aliases
  where owner = $1::text and name = $2::text and exists (select from versions)
  returning alias, targets
),
written as (
  insert into umbra.alias_moves (owner, name, alias, moved_at, moved_by, moved_from, moved_to)
  select $1::text, $2::text, alias, $3::text::bigint, $4::text, targets, null from gone
)
select version from versions
