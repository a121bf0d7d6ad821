-- Requests slots of provider @provider, at @at: for jobs @jobs with nodes @nodes and items @items, in partitions
-- @partitions, of owners @owners. An existing request stays unchanged, held or waiting; one whose lease has ended waits
-- again. Returns the version that a grant needs, read here before the grant counts, and the requests that are held.
with provider as (
  insert into umbra.providers (name) values (@provider::text) on conflict (name) do nothing returning version
),
wishes as materialized (
  select w.job_id, w.node, w.item, w.partition, w.owner
  from unnest(@jobs::text::uuid[], @nodes::text::int[], @items::text::int[], @partitions::text::int[], @owners::text::text[])
    with ordinality as w (job_id, node, item, partition, owner, place)
  order by w.place
),
asked as (
  insert into umbra.slots (provider, job_id, node, item, partition, owner, asked_at)
  select @provider::text, job_id, node, item, partition, owner, @at::text::bigint from wishes
  on conflict (provider, job_id, node, item) do update
  set id = default, partition = excluded.partition, asked_at = excluded.asked_at, granted_at = null, held_until = null
  where slots.held_until <= @at::text::bigint
)
select
  coalesce((select version from provider), (select version from umbra.providers where name = @provider::text), 0) as version,
  (
    select coalesce(jsonb_agg(jsonb_build_object('jobId', s.job_id, 'node', s.node, 'item', s.item)), '[]')
    from wishes
    join umbra.slots as s
      on s.provider = @provider::text and s.job_id = wishes.job_id and s.node = wishes.node and s.item = wishes.item
    where s.held_until > @at::text::bigint
  ) as held
