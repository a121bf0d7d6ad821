-- Outcomes after the tick $2 and kind $3, and of ticks before $4, oldest first.
select tick, kind, at, outcome, job_id, reason, count
from umbra.fires
where schedule_id = $1::text::uuid and (tick, kind) > ($2::text::bigint, $3::text) and tick < $4::text::bigint
order by tick, kind
limit $5::text::bigint
