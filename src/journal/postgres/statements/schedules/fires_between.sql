-- Outcomes after the tick @tick and kind @kind, and of ticks before @to, oldest first.
select tick, kind, at, outcome, job_id, reason, count
from umbra.fires
where schedule_id = @schedule_id::text::uuid and (tick, kind) > (@tick::text::bigint, @kind::text) and tick < @to::text::bigint
order by tick, kind
limit @limit::text::bigint
