-- When the next try of a message of execution $1 and route $2 is due.
select due_at
from umbra.pipeline_parked
where execution = $1::text::bigint and route = $2::text::smallint and due_at is not null
order by due_at
limit 1
