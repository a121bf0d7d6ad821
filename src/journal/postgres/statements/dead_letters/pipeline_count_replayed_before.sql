-- Among the dead letters of execution $2 and route $3 that job $1 replays, the number of those before seq $4.
select count(*)
from umbra.pipeline_parked
where replayed_by = $1::text::uuid
  and execution = $2::text::bigint
  and route = $3::text::smallint
  and seq < $4::text::bigint
