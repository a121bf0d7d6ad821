-- Removes an artifact (@owner, @hash) at @at that nothing holds and that was not claimed after @claimed_before. With
-- @force it is removed in any case, and the row of one that is held stays as a tombstone.
with found as materialized (
  select
    a.key, a.claimed_at <= @claimed_before::text::bigint as is_free,
    exists (select from umbra.held as h where h.held = a.hash || ' ' || a.owner) as is_held
  from umbra.artifacts as a
  where a.owner = @owner::text and a.hash = @hash::text
  for update of a
),
deleted as (
  delete from umbra.artifacts as a
  using found as f
  where a.owner = @owner::text and a.hash = @hash::text and not f.is_held and (f.is_free or @force::text::boolean)
  returning 1
),
emptied as (
  update umbra.artifacts as a
  set removed_at = coalesce(a.removed_at, @at::text::bigint), key = null, marked_at = null
  from found as f
  where a.owner = @owner::text and a.hash = @hash::text and f.is_held and @force::text::boolean
  returning 1
)
select
  case
    when exists (select from deleted) or exists (select from emptied) then 'removed'
    when exists (select from found) then 'referenced'
    else 'missing'
  end as outcome,
  (select key from found where exists (select from deleted) or exists (select from emptied)) as key
