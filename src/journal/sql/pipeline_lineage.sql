-- What was done with the messages of execution $1 with these routes ($2) and seqs ($3). At most $4 rows, each of one
-- attempt or a part of it.
select l.route, l.seq, l.attempt, l.gathered_into, l.steps
from (select distinct route, seq from unnest($2::text::smallint[], $3::text::bigint[]) as u (route, seq)) as k
join umbra.pipeline_lineage as l on l.execution = $1::text::bigint and l.route = k.route and l.seq = k.seq
order by l.route, l.seq, l.attempt
limit $4::text::bigint
