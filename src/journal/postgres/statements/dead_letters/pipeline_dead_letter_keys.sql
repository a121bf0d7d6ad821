-- At most $4 dead letters of execution $1, after ($2 route, $3 seq).
select route, seq
from umbra.pipeline_parked
where execution = $1::text::bigint
  and due_at is null
  and (route, seq) > ($2::text::smallint, $3::text::bigint)
order by route, seq
limit $4::text::bigint
