-- Requests slots of provider $1, at $2: for jobs $3 with nodes $4 and items $7, in partitions $5, of owners
-- $6. An existing request stays unchanged, held or waiting; one whose lease has ended waits again. Returns
-- the version that a grant needs, read here before the grant counts, and the requests that are held.
with provider as (
  insert into umbra.providers (name) values ($1::text) on conflict (name) do nothing returning version
),
wishes as materialized (
  select w.job_id, w.node, w.item, w.partition, w.owner
  from unnest($3::text::uuid[], $4::text::int[], $7::text::int[], $5::text::int[], $6::text::text[])
    with ordinality as w (job_id, node, item, partition, owner, place)
  order by w.place
),
asked as (
  insert into umbra.slots (provider, job_id, node, item, partition, owner, asked_at)
  select $1::text, job_id, node, item, partition, owner, $2::text::bigint from wishes
  on conflict (provider, job_id, node, item) do update
  set id = default, partition = excluded.partition, asked_at = excluded.asked_at, granted_at = null, held_until = null
  where slots.held_until <= $2::text::bigint
)
select
  coalesce((select version from provider), (select version from umbra.providers where name = $1::text), 0) as version,
  (
    select coalesce(jsonb_agg(jsonb_build_object('jobId', s.job_id, 'node', s.node, 'item', s.item)), '[]')
    from wishes
    join umbra.slots as s
      on s.provider = $1::text and s.job_id = wishes.job_id and s.node = wishes.node and s.item = wishes.item
    where s.held_until > $2::text::bigint
  ) as held
