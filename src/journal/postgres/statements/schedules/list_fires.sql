-- Outcomes of ticks before $2, newest first.
select tick, kind, at, outcome, job_id, reason, count
from umbra.fires
where schedule_id = $1::text::uuid and tick < $2::text::bigint
order by tick desc, kind desc
limit $3::text::bigint
