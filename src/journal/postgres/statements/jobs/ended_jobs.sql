-- At most @limit jobs of all partitions that ended before @before, by (finished_at, id), after the job
-- (@after_finished_at, @after_id); which of them are of these partitions (@partitions), and which of those may be
-- removed. A child stays as long as its parent, which may be retried and read its output; a job that still has to
-- report its end (`wake_at`) until it has; a job with an operation that is yet to be cancelled until its provider was
-- asked, and one with a submission whose outcome is unknown until it is known; both at the latest when the job ended
-- before @unsettled_before; and every job until the statistics have counted it. Whatever is kept, the statement reads
-- @limit jobs.
with page as materialized (
  select id, seq, partition, finished_at, partition = any (@partitions::text::int[]) as is_mine, wake_at, parent_id
  from umbra.jobs
  where finished_at < @before::text::bigint
    and finished_at >= @after_finished_at::text::bigint
    and (finished_at, id) > (@after_finished_at::text::bigint, @after_id::text::uuid)
  order by finished_at, id
  limit @limit::text::bigint
)
select
  j.id, j.finished_at, j.is_mine,
  j.is_mine
    and j.wake_at is null
    and j.seq <= (select w.seq from umbra.statistics_watermarks as w where w.partition = j.partition)
    and not exists (select from umbra.jobs as p where p.id = j.parent_id)
    and not exists (select from umbra.held as h where h.held = j.id::text)
    and (
      j.finished_at < @unsettled_before::text::bigint
      or not exists (
        select from umbra.operations as o
        where o.job_id = j.id and (o.cancel_at is not null or (o.unseen and o.ended_at is null))
      )
    ) as is_free
from page as j
order by j.finished_at, j.id
