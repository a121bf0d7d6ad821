-- Outcomes before the tick $2 and kind $3, newest first.
select tick, kind, at, outcome, job_id, reason, count
from umbra.fires
where schedule_id = $1::text::uuid and (tick, kind) < ($2::text::bigint, $3::text)
order by tick desc, kind desc
limit $4::text::bigint
