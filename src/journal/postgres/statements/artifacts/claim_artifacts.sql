-- Those of the hashes (@hashes) that the owner (@owner) has. Fails for rows that are marked: their content is about to
-- be removed. A claim that is not older than @stale_before is left as it is. Other rows are locked in the order of
-- their hashes.
with found as materialized (
  select hash, claimed_at < @stale_before::text::bigint as is_stale
  from umbra.artifacts
  where owner = @owner::text and hash = any (@hashes::text::text[]) and marked_at is null and key is not null
),
wanted as materialized (
  select hash
  from umbra.artifacts
  where owner = @owner::text and hash = any (array(select hash from found where is_stale))
    and marked_at is null and key is not null
  order by hash
  for no key update
),
claimed as (
  update umbra.artifacts as a
  set claimed_at = greatest(a.claimed_at, @at::text::bigint)
  from wanted
  where a.owner = @owner::text and a.hash = wanted.hash
  returning a.hash
)
select hash from found where not is_stale
union all
select hash from claimed
