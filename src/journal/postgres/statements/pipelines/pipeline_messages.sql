-- Messages of execution $1 in the queue of route $2 after seq $3: at most $4, and as many as have $5 bytes
-- together, but at least one. The bodies of the others are not read.
select route, seq, parent_route, parent_seq, root, hops, at, body
from (
  select *, sum(bytes) over (order by seq) as total, row_number() over (order by seq) as place
  from (
    select *
    from umbra.pipeline_messages
    where execution = $1::text::bigint and route = $2::text::smallint and seq > $3::text::bigint
    order by seq
    limit $4::text::bigint
  ) as page
) as summed
where place = 1 or total <= $5::text::bigint
order by seq
