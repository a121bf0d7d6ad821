-- At most $3 jobs of all partitions that ended before $2, by (finished_at, id), after the job ($4, $5); which of
-- them are of these partitions ($1), and which of those may be removed. A child stays as long as its parent,
-- which may be retried and read its output; a job that still has to report its end (`wake_at`) until it has; a
-- job with an operation that is yet to be cancelled until its provider was asked, and one with a submission
-- whose outcome is unknown until it is known; both at the latest when the job ended before $6; and every job until
-- the statistics have counted it. Whatever is kept, the statement reads $3 jobs.
with page as materialized (
  select id, seq, partition, finished_at, partition = any ($1::text::int[]) as is_mine, wake_at, parent_id
  from umbra.jobs
  where finished_at < $2::text::bigint
    and finished_at >= $4::text::bigint
    and (finished_at, id) > ($4::text::bigint, $5::text::uuid)
  order by finished_at, id
  limit $3::text::bigint
)
select
  j.id, j.finished_at, j.is_mine,
  j.is_mine
    and j.wake_at is null
    and j.seq <= (select w.seq from umbra.statistics_watermarks as w where w.partition = j.partition)
    and not exists (select from umbra.jobs as p where p.id = j.parent_id)
    and not exists (select from umbra.held as h where h.held = j.id::text)
    and (
      j.finished_at < $6::text::bigint
      or not exists (
        select from umbra.operations as o
        where o.job_id = j.id and (o.cancel_at is not null or (o.unseen and o.ended_at is null))
      )
    ) as is_free
from page as j
order by j.finished_at, j.id
