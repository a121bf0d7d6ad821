-- At most $5 dead letters that job $1 replays, after ($2 execution, $3 route, $4 seq). `offset 0`: as in
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
where p.replayed_by = $1::text::uuid
  and (p.execution, p.route, p.seq) > ($2::text::bigint, $3::text::smallint, $4::text::bigint)
order by p.execution, p.route, p.seq
limit $5::text::bigint
