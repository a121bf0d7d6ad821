-- Submissions of ended jobs whose outcome is unknown: of these partitions ($1) while they hold a slot at $2,
-- or all of job $3.
select
  o.provider, o.job_id, o.node, o.item, o.attempt, o.operation, o.submitted_at as since,
  coalesce(o.slot_until, 0) as slot_until, coalesce(j.owner, '') as owner
from umbra.operations as o
left join umbra.jobs as j on j.id = o.job_id
where o.unseen
  and (
    ($3::text is null and o.partition = any ($1::text::int[]) and o.slot_until > $2::text::bigint)
    or o.job_id = $3::text::uuid
  )
order by o.submitted_at
