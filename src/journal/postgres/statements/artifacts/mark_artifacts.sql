-- Reads at most @limit rows after (@owner, @hash), and marks at @at those that nothing holds and that were put before
-- @before and claimed before @claimed_before. With @dry_run it only tells which.
with page as materialized (
  select a.owner, a.hash, a.last_put_at, a.claimed_at, a.marked_at
  from umbra.artifacts as a
  where (a.owner, a.hash) > (@owner::text, @hash::text)
  order by a.owner, a.hash
  limit @limit::text::bigint
),
chosen as materialized (
  select a.*
  from page as p
  join umbra.artifacts as a on a.owner = p.owner and a.hash = p.hash
  where p.marked_at is null and p.last_put_at < @before::text::bigint and p.claimed_at < @claimed_before::text::bigint
    and not exists (select from umbra.held as h where h.held = p.hash || ' ' || p.owner)
),
marked as (
  update umbra.artifacts as a
  set marked_at = @at::text::bigint
  from chosen as c
  where a.owner = c.owner and a.hash = c.hash and not @dry_run::text::boolean
    -- As it is now: it may have been put or claimed since this statement began.
    and a.marked_at is null and a.last_put_at < @before::text::bigint and a.claimed_at < @claimed_before::text::bigint
  returning a.owner, a.hash
)
select
  coalesce((
    select jsonb_agg(jsonb_build_object(
      'owner', c.owner, 'hash', c.hash, 'key', c.key, 'bytes', c.bytes, 'name', c.name, 'type', c.type,
      'createdAt', c.created_at, 'lastPutAt', c.last_put_at, 'markedAt', @at::text::bigint, 'removedAt', c.removed_at
    ))
    from chosen as c
    where @dry_run::text::boolean or exists (select from marked as m where m.owner = c.owner and m.hash = c.hash)
  ), '[]'::jsonb) as marked,
  (select count(*) from page) as read,
  (select owner from page order by owner desc, hash desc limit 1) as last_owner,
  (select hash from page order by owner desc, hash desc limit 1) as last_hash
