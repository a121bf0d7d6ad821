-- At most $4 messages of execution $1 that were gathered into those with these routes ($2) and seqs ($3). `offset 0`: as
-- in pipeline_find_messages.sql.
select distinct l.route, l.seq
from unnest($2::text::smallint[], $3::text::bigint[]) as k (route, seq)
cross join lateral (
  select route, seq
  from umbra.pipeline_lineage
  where execution = $1::text::bigint and route = k.route and gathered_into = k.seq
  offset 0
) as l
order by l.route, l.seq
limit $4::text::bigint
