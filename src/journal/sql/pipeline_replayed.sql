-- At most $5 dead letters that job $1 replays, from behind ($2 execution, $3 route, $4 seq) on.
select m.route, m.seq, m.parent_route, m.parent_seq, m.root, m.hops, m.at, m.body, m.execution
from umbra.pipeline_parked as p
join umbra.pipeline_messages as m on m.execution = p.execution and m.route = p.route and m.seq = p.seq
where p.replayed_by = $1::text::uuid
  and (p.execution, p.route, p.seq) > ($2::text::bigint, $3::text::smallint, $4::text::bigint)
order by p.execution, p.route, p.seq
limit $5::text::bigint
