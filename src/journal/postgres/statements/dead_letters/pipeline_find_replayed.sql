-- Among the dead letters of execution $2 and route $3 that job $1 replays, the one with $4 before it.
select route, seq
from umbra.pipeline_parked
where replayed_by = $1::text::uuid and execution = $2::text::bigint and route = $3::text::smallint
order by seq
offset $4::text::bigint
limit 1
