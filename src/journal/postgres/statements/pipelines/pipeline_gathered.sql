-- At most @limit messages of execution @execution that were gathered into those with these routes (@routes) and seqs
-- (@seqs). `offset 0`: as in pipeline_find_messages.sql.
select distinct l.route, l.seq
from unnest(@routes::text::smallint[], @seqs::text::bigint[]) as k (route, seq)
cross join lateral (
  select route, seq
  from umbra.pipeline_lineage
  where execution = @execution::text::bigint and route = k.route and gathered_into = k.seq
  offset 0
) as l
order by l.route, l.seq
limit @limit::text::bigint
