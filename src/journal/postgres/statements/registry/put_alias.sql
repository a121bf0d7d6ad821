-- Points an alias ($3) of a workflow ($1 owner, $2 name) at targets ($4; their versions in $5), at $6, by $7,
-- and records the move. Versions that do not exist are returned as rows, and then nothing is written. Sent
-- again, it finds its own move and writes nothing. No row: another process created the alias meanwhile; sent
-- again, the statement sees that alias and moves it. The versions are share-locked, so that a workflow is not
-- deleted while an alias of it is created.
with before as materialized (
  select targets::text as targets
  from umbra.aliases
  where owner = $1::text and name = $2::text and alias = $3::text
  for update
),
there as materialized (
  select w.version
  from umbra.workflows as w
  where w.owner = $1::text and w.name = $2::text and w.version = any ($5::text::int[]) and w.deleted_at is null
  for share
),
missing as materialized (
  select v.version
  from unnest($5::text::int[]) as v (version)
  where not exists (select from there where there.version = v.version)
),
added as (
  insert into umbra.aliases (owner, name, alias, targets, moved_at, moved_by)
  select $1::text, $2::text, $3::text, $4::text::json, $6::text::bigint, $7::text
  where not exists (select from before) and not exists (select from missing)
  on conflict do nothing
  returning 1
),
moved as (
  update umbra.aliases
  set targets = $4::text::json, moved_at = $6::text::bigint, moved_by = $7::text
  where owner = $1::text and name = $2::text and alias = $3::text
    and exists (select from before where before.targets <> $4::text)
    and not exists (select from missing)
  returning 1
),
written as (
  insert into umbra.alias_moves (owner, name, alias, moved_at, moved_by, moved_from, moved_to)
  select
    $1::text, $2::text, $3::text, $6::text::bigint, $7::text, (select targets::json from before), $4::text::json
  where exists (select from added) or exists (select from moved)
)
select 'missing' as outcome, version from missing
union all
select 'moved', null from added
union all
select 'moved', null from moved
union all
select 'unchanged', null from before where targets = $4::text and not exists (select from missing)
