-- A new version unless the latest has this content and is not deleted. No row: somebody else took the version number
-- meanwhile; the caller sends the statement again and sees theirs.
with latest as (
  select version, hash, definition, created_at, deleted_at
  from umbra.workflows
  where owner = $1::text and name = $2::text
  order by version desc
  limit 1
),
same as (
  select version, hash, definition, created_at from latest where hash = $3::text and deleted_at is null
),
added as (
  insert into umbra.workflows (owner, name, version, hash, definition, created_at)
  select $1::text, $2::text, coalesce((select version from latest), 0) + 1, $3::text, $4::text::json, $5::text::bigint
  where not exists (select from same)
  on conflict do nothing
  returning version, hash, definition, created_at
)
select version, hash, definition, created_at, false, null from added
union all
select version, hash, definition, created_at, true, null from same
