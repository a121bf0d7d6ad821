-- At most $4 messages of execution $1 that were gathered into those with these routes ($2) and seqs ($3).
select distinct l.route, l.seq
from unnest($2::text::smallint[], $3::text::bigint[]) as k (route, seq)
join umbra.pipeline_lineage as l
  on l.execution = $1::text::bigint and l.route = k.route and l.gathered_into = k.seq
order by l.route, l.seq
limit $4::text::bigint
