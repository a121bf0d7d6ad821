-- Stores a new schedule, which holds the artifacts with the hashes @hashes. Returns no row if the owner has another one
-- with this name. Sent twice, it returns a row again.
with created as (
  insert into umbra.schedules (
    id, owner, name, partition, revision, document, created_at, updated_at, last_tick, next_at
  )
  values (
    @id::text::uuid, @owner::text, @name::text, @partition::text::int, 1, @document::text::json,
    @created_at::text::bigint, @created_at::text::bigint, @last_tick::text::bigint, @next_at::text::bigint
  )
  on conflict do nothing
  returning id
),
holds as (
  insert into umbra.held (held, by)
  select h.hash || ' ' || @owner::text, c.id from created as c cross join unnest(@hashes::text::text[]) as h (hash)
)
select 1 as found from created
union all
select 1 from umbra.schedules where id = @id::text::uuid
