-- Outcomes before the tick @tick and kind @kind, newest first.
select tick, kind, at, outcome, job_id, reason, count
from umbra.fires
where schedule_id = @schedule_id::text::uuid and (tick, kind) < (@tick::text::bigint, @kind::text)
order by tick desc, kind desc
limit @limit::text::bigint
