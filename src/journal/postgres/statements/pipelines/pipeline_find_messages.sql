-- Messages of execution $1 with these routes ($2) and seqs ($3). `offset 0` keeps the planner from joining in
-- the other order, which would read the whole execution: it does not know its size.
select m.*
from (select distinct route, seq from unnest($2::text::smallint[], $3::text::bigint[]) as u (route, seq)) as k
cross join lateral (
  select route, seq, parent_route, parent_seq, root, hops, at, body
  from umbra.pipeline_messages
  where execution = $1::text::bigint and route = k.route and seq = k.seq
  offset 0
) as m
