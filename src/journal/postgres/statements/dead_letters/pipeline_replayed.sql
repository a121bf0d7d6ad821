-- At most @limit dead letters that job @replayed_by replays, after (@execution, @route, @seq). `offset 0`: as in
-- pipeline_find_messages.sql.
select
  m.route, m.seq, m.parent_route, m.parent_seq, m.root, m.hops, m.at, coalesce(p.replay_body, m.body) as body, m.execution
from umbra.pipeline_parked as p
cross join lateral (
  select route, seq, parent_route, parent_seq, root, hops, at, body, execution
  from umbra.pipeline_messages
  where execution = p.execution and route = p.route and seq = p.seq
  offset 0
) as m
where p.replayed_by = @replayed_by::text::uuid
  and (p.execution, p.route, p.seq) > (@execution::text::bigint, @route::text::smallint, @seq::text::bigint)
order by p.execution, p.route, p.seq
limit @limit::text::bigint
