-- Submissions of ended jobs whose outcome is unknown: of these partitions (@partitions) while they hold a slot at @at,
-- or all of job @job_id.
select
  o.provider, o.job_id, o.node, o.item, o.attempt, o.operation, o.submitted_at as since,
  coalesce(o.slot_until, 0) as slot_until, coalesce(j.owner, '') as owner
from umbra.operations as o
left join umbra.jobs as j on j.id = o.job_id
where o.unseen
  and (
    (@job_id::text is null and o.partition = any (@partitions::text::int[]) and o.slot_until > @at::text::bigint)
    or o.job_id = @job_id::text::uuid
  )
order by o.submitted_at
