-- At most $5 dead letters of execution $1, of route $2 alone if it is given, from behind ($3 route, $4 seq) on.
select
  m.route, m.seq, m.parent_route, m.parent_seq, m.root, m.hops, m.at, m.body, p.attempts, p.at, p.error, p.replayed_by
from umbra.pipeline_parked as p
join umbra.pipeline_messages as m on m.execution = p.execution and m.route = p.route and m.seq = p.seq
where p.execution = $1::text::bigint
  and p.due_at is null
  and p.route between coalesce($2::text::smallint, 0) and coalesce($2::text::smallint, 32767)
  and (p.route, p.seq) > ($3::text::smallint, $4::text::bigint)
order by p.route, p.seq
limit $5::text::bigint
