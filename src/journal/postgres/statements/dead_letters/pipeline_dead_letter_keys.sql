-- At most @limit dead letters of execution @execution, after (@route, @seq).
select route, seq
from umbra.pipeline_parked
where execution = @execution::text::bigint
  and due_at is null
  and (route, seq) > (@route::text::smallint, @seq::text::bigint)
order by route, seq
limit @limit::text::bigint
