-- The lineage of the messages of execution $1 with these routes ($2) and seqs ($3): the first $4 rows, each
-- of one attempt or a part of it, and with the last of them all rows of the same attempt. `offset 0`: as in
-- pipeline_find_messages.sql.
select k.route, k.seq, l.attempt, l.gathered_into as "into", l.steps
from (
  select distinct route, seq from unnest($2::text::smallint[], $3::text::bigint[]) as u (route, seq) order by route, seq
) as k
cross join lateral (
  select attempt, gathered_into, steps
  from umbra.pipeline_lineage
  where execution = $1::text::bigint and route = k.route and seq = k.seq
  offset 0
) as l
order by k.route, k.seq, l.attempt
fetch first ($4::text::bigint) rows with ties
