-- Claims operation @external_id at provider @provider for owner @owner, at @at. Returns 0 if it belongs to another
-- owner: its claim has a recorded operation, or is not older than @abandoned_before (the submission was answered, and
-- its record is in flight). A claim that a crash left without a record can be taken over after that; its own owner may
-- claim at any time.
with claimed as (
  insert into umbra.operation_claims as c (provider, external_id, owner, claimed_at)
  values (@provider::text, @external_id::text, @owner::text, @at::text::bigint)
  on conflict (provider, external_id) do update
  set owner = excluded.owner, claimed_at = excluded.claimed_at
  where c.owner = excluded.owner
    or (
      c.claimed_at < @abandoned_before::text::bigint
      and not exists (
        select from umbra.operations as o where o.provider = c.provider and o.external_id = c.external_id
      )
    )
  returning 1
)
select count(*) from claimed
