-- At most @limit dead letters of execution @execution, of route @route alone if it is given, after (@after_route route,
-- @after_seq seq). `offset 0`: as in pipeline_find_messages.sql.
select m.*, p.attempts, p.at as failed_at, p.error, p.replayed_by, p.replay_body is not null as is_edited
from umbra.pipeline_parked as p
cross join lateral (
  select route, seq, parent_route, parent_seq, root, hops, at, body
  from umbra.pipeline_messages
  where execution = p.execution and route = p.route and seq = p.seq
  offset 0
) as m
where p.execution = @execution::text::bigint
  and p.due_at is null
  and p.route between coalesce(@route::text::smallint, 0) and coalesce(@route::text::smallint, 32767)
  and (p.route, p.seq) > (@after_route::text::smallint, @after_seq::text::bigint)
order by p.route, p.seq
limit @limit::text::bigint
