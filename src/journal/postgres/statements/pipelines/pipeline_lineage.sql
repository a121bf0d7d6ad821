-- The lineage of the messages of execution @execution with these routes (@routes) and seqs (@seqs): the first @limit
-- rows, each of one attempt or a part of it, and with the last of them all rows of the same attempt. `offset 0`: as in
-- pipeline_find_messages.sql.
select k.route, k.seq, l.attempt, l.gathered_into as "into", l.steps
from (
  select distinct route, seq from unnest(@routes::text::smallint[], @seqs::text::bigint[]) as u (route, seq) order by route, seq
) as k
cross join lateral (
  select attempt, gathered_into, steps
  from umbra.pipeline_lineage
  where execution = @execution::text::bigint and route = k.route and seq = k.seq
  offset 0
) as l
order by k.route, k.seq, l.attempt
fetch first (@limit::text::bigint) rows with ties
