-- For display: the holders of slots of provider @provider (@at now), including those of ended jobs; the number of
-- waiting requests, its rate, its last failures.
with held as materialized (
  select job_id, node, item, owner, granted_at as since, held_until as until, false as unseen
  from umbra.slots
  where provider = @provider::text and held_until > @at::text::bigint
  union all
  select o.job_id, o.node, o.item, coalesce(j.owner, ''), o.submitted_at, o.slot_until, o.unseen
  from umbra.operations as o
  left join umbra.jobs as j on j.id = o.job_id
  where o.provider = @provider::text and o.slot_until > @at::text::bigint
)
select
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'jobId', job_id, 'node', node, 'item', item, 'owner', owner, 'since', since, 'until', until, 'unseen', unseen
    )), '[]')
    from held
  ) as held,
  count(*) as waiting,
  min(s.asked_at) as oldest_asked_at,
  (select count(*) from umbra.operations where provider = @provider::text and ended_at is null) as operations,
  coalesce((select factor from umbra.provider_pace where provider = @provider::text), 1) as pace,
  (
    select coalesce(jsonb_agg(jsonb_build_object('at', at, 'what', what, 'code', code, 'message', message) order by id desc), '[]')
    from (select * from umbra.provider_errors where provider = @provider::text order by id desc limit 20) as e
  ) as errors
from umbra.slots as s
where s.provider = @provider::text and s.held_until is null
