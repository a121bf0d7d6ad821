-- For display: the holders of slots of provider $1 ($2 now), including those of ended jobs; the number of
-- waiting requests, its rate, its last failures. Distinguished by the first column.
select 'held', s.job_id::text, s.node::text, s.item::text, s.owner, s.granted_at::text, s.held_until::text
from umbra.slots as s
where s.provider = $1::text and s.held_until > $2::text::bigint
union all
select
  case when o.unseen then 'unseen' else 'held' end,
  o.job_id::text, o.node::text, o.item::text, coalesce(j.owner, ''), o.submitted_at::text, o.slot_until::text
from umbra.operations as o
left join umbra.jobs as j on j.id = o.job_id
where o.provider = $1::text and o.slot_until > $2::text::bigint
union all
select 'waiting', count(*)::text, min(s.asked_at)::text, null, null, null, null
from umbra.slots as s
where s.provider = $1::text and s.held_until is null
union all
select 'pace', p.factor::text, ceil(p.next_at)::bigint::text, null, null, null, null
from umbra.provider_pace as p
where p.provider = $1::text
union all
select 'running', count(*)::text, null, null, null, null, null
from umbra.operations as o
where o.provider = $1::text and o.ended_at is null
union all
select 'error', e.at::text, e.what, e.code, e.message, null, null
from (
  select * from umbra.provider_errors where provider = $1::text order by id desc limit 20
) as e
