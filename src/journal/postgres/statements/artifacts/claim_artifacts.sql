-- Those of the hashes ($2) that the owner ($1) has. Fails for rows that are marked: their content is about to be removed.
-- A claim that is not older than $4 is left as it is. Other rows are locked in the order of their hashes.
with found as materialized (
  select hash, claimed_at < $4::text::bigint as is_stale
  from umbra.artifacts
  where owner = $1::text and hash = any ($2::text::text[]) and marked_at is null and key is not null
),
wanted as materialized (
  select hash
  from umbra.artifacts
  where owner = $1::text and hash = any (array(select hash from found where is_stale))
    and marked_at is null and key is not null
  order by hash
  for no key update
),
claimed as (
  update umbra.artifacts as a
  set claimed_at = greatest(a.claimed_at, $3::text::bigint)
  from wanted
  where a.owner = $1::text and a.hash = wanted.hash
  returning a.hash
)
select hash from found where not is_stale
union all
select hash from claimed
