-- Messages of execution $1 with these routes ($2) and seqs ($3).
select m.route, m.seq, m.parent_route, m.parent_seq, m.root, m.hops, m.at, m.body
from (select distinct route, seq from unnest($2::text::smallint[], $3::text::bigint[]) as u (route, seq)) as k
join umbra.pipeline_messages as m on m.execution = $1::text::bigint and m.route = k.route and m.seq = k.seq
