-- At most $3 jobs of these partitions ($1) that ended before $2, oldest first. A child stays as long as its
-- parent, which may be retried and read its output; a job that still has to report its end (`wake_at`) until
-- it has; a job with an operation that is yet to be cancelled until its provider was asked, and one with a
-- submission whose outcome is unknown until it is known; both at the latest when the job ended before $4.
select j.id
from umbra.jobs as j
where j.finished_at < $2::text::bigint
  and j.partition = any ($1::text::int[])
  and j.wake_at is null
  and not exists (select from umbra.jobs as p where p.id = j.parent_id)
  and (
    j.finished_at < $4::text::bigint
    or not exists (
      select from umbra.operations as o
      where o.job_id = j.id and (o.cancel_at is not null or (o.unseen and o.ended_at is null))
    )
  )
order by j.finished_at
limit $3::text::bigint
