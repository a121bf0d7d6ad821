-- Messages of execution @execution with these routes (@routes) and seqs (@seqs). `offset 0` keeps the planner from
-- joining in the other order, which would read the whole execution: it does not know its size.
select m.*
from (select distinct route, seq from unnest(@routes::text::smallint[], @seqs::text::bigint[]) as u (route, seq)) as k
cross join lateral (
  select route, seq, parent_route, parent_seq, root, hops, at, body
  from umbra.pipeline_messages
  where execution = @execution::text::bigint and route = k.route and seq = k.seq
  offset 0
) as m
