-- Stores that an owner (@owner) has content (@hash, @key, @bytes, @name, @type) at @at. A row that is marked or removed
-- gets the new key, because its content is about to be removed, or was; any other keeps its key, and the caller removes
-- the new content. A put that says no name or no type leaves those that are known.
insert into umbra.artifacts as a
  (owner, hash, key, bytes, name, type, created_at, last_put_at, claimed_at)
values (
  @owner::text, @hash::text, @key::text, @bytes::text::bigint, @name::text, @type::text, @at::text::bigint, @at::text::bigint, 0
)
on conflict (owner, hash) do update
set
  key = case when a.marked_at is null and a.key is not null then a.key else excluded.key end,
  name = case when excluded.name = 'artifact' and a.key is not null then a.name else excluded.name end,
  type = case when excluded.type = 'application/octet-stream' and a.key is not null then a.type else excluded.type end,
  last_put_at = greatest(a.last_put_at, excluded.last_put_at),
  marked_at = null,
  removed_at = null
returning a.owner, a.hash, a.key, a.bytes, a.name, a.type, a.created_at, a.last_put_at, a.marked_at, a.removed_at
