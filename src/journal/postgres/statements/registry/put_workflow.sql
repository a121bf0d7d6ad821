-- Stores a new version unless the latest has this content and is not deleted. The text is compared in
-- addition to the hash: a value that was written although it is the default is part of the text alone. No
-- row: another process took the version number meanwhile; the caller sends the statement again and sees that
-- version.
with latest as (
  select version, hash, definition, created_at, deleted_at, pushed_by, rules
  from umbra.workflows
  where owner = @owner::text and name = @name::text
  order by version desc
  limit 1
),
same as (
  select version, hash, definition, created_at, pushed_by, rules
  from latest
  where hash = @hash::text and definition::text = @definition::text and deleted_at is null
),
added as (
  insert into umbra.workflows (owner, name, version, hash, definition, created_at, pushed_by, rules)
  select
    @owner::text,
    @name::text,
    coalesce((select version from latest), 0) + 1,
    @hash::text,
    @definition::text::json,
    @created_at::text::bigint,
    @pushed_by::text,
    @rules::text::int
  where not exists (select from same)
  on conflict do nothing
  returning version, hash, definition, created_at, pushed_by, rules
)
select version, hash, definition, created_at, false as unchanged, null as deleted_at, pushed_by, rules from added
union all
select version, hash, definition, created_at, true, null, pushed_by, rules from same
