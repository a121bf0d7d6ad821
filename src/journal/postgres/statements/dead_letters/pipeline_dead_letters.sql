-- At most $5 dead letters of execution $1, of route $2 alone if it is given, after ($3 route, $4 seq).
-- `offset 0`: as in pipeline_find_messages.sql.
select m.*, p.attempts, p.at as failed_at, p.error, p.replayed_by, p.replay_body is not null as is_edited
from umbra.pipeline_parked as p
cross join lateral (
  select route, seq, parent_route, parent_seq, root, hops, at, body
  from umbra.pipeline_messages
  where execution = p.execution and route = p.route and seq = p.seq
  offset 0
) as m
where p.execution = $1::text::bigint
  and p.due_at is null
  and p.route between coalesce($2::text::smallint, 0) and coalesce($2::text::smallint, 32767)
  and (p.route, p.seq) > ($3::text::smallint, $4::text::bigint)
order by p.route, p.seq
limit $5::text::bigint
