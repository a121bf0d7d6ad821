-- A wish for a slot of provider $1 by job $2, node $3; one that is there already stays as it is, held or waiting. The
-- answer has the version that a grant needs: read here, before the grant counts.
with provider as (
  insert into umbra.providers (name) values ($1::text) on conflict (name) do nothing returning version
),
asked as (
  insert into umbra.slots (provider, job_id, node, partition, owner, asked_at)
  values ($1::text, $2::text::uuid, $3::text::int, $4::text::int, $5::text, $6::text::bigint)
  on conflict do nothing
)
select
  coalesce((select version from provider), (select version from umbra.providers where name = $1::text), 0),
  coalesce(
    (
      select held_until > $6::text::bigint
      from umbra.slots
      where provider = $1::text and job_id = $2::text::uuid and node = $3::text::int
    ),
    false
  )
