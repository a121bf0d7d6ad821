-- Points an alias (@alias) of a workflow (@owner, @name) at targets (@targets; their versions in @versions), at @at, by @by,
-- and records the move. Versions that do not exist are returned as rows, and then nothing is written. Sent
-- again, it finds its own move and writes nothing. No row: another process created the alias meanwhile; sent
-- again, the statement sees that alias and moves it. The versions are share-locked, so that a workflow is not
-- deleted while an alias of it is created.
with before as materialized (
  select targets::text as targets
  from umbra.aliases
  where owner = @owner::text and name = @name::text and alias = @alias::text
  for update
),
there as materialized (
  select w.version
  from umbra.workflows as w
  where w.owner = @owner::text and w.name = @name::text and w.version = any (@versions::text::int[]) and w.deleted_at is null
  for share
),
missing as materialized (
  select v.version
  from unnest(@versions::text::int[]) as v (version)
  where not exists (select from there where there.version = v.version)
),
added as (
  insert into umbra.aliases (owner, name, alias, targets, moved_at, moved_by)
  select @owner::text, @name::text, @alias::text, @targets::text::json, @at::text::bigint, @by::text
  where not exists (select from before) and not exists (select from missing)
  on conflict do nothing
  returning 1
),
moved as (
  update umbra.aliases
  set targets = @targets::text::json, moved_at = @at::text::bigint, moved_by = @by::text
  where owner = @owner::text and name = @name::text and alias = @alias::text
    and exists (select from before where before.targets <> @targets::text)
    and not exists (select from missing)
  returning 1
),
written as (
  insert into umbra.alias_moves (owner, name, alias, moved_at, moved_by, moved_from, moved_to)
  select
    @owner::text, @name::text, @alias::text, @at::text::bigint, @by::text, (select targets::json from before), @targets::text::json
  where exists (select from added) or exists (select from moved)
)
select 'missing' as outcome, version from missing
union all
select 'moved', null from added
union all
select 'moved', null from moved
union all
select 'unchanged', null from before where targets = @targets::text and not exists (select from missing)
