-- Stores a new schedule, which holds the artifacts with the hashes $9. Returns no row if the owner has another one with this name. Sent twice, it returns a row again.
with created as (
  insert into umbra.schedules (
    id, owner, name, partition, revision, document, created_at, updated_at, last_tick, next_at
  )
  values (
    $1::text::uuid, $2::text, $3::text, $4::text::int, 1, $5::text::json, $6::text::bigint, $6::text::bigint,
    $7::text::bigint, $8::text::bigint
  )
  on conflict do nothing
  returning id
),
holds as (
  insert into umbra.held (held, by)
  select h.hash || ' ' || $2::text, c.id from created as c cross join unnest($9::text::text[]) as h (hash)
)
select 1 as found from created
union all
select 1 from umbra.schedules where id = $1::text::uuid
