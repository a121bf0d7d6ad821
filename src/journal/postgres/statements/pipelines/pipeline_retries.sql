-- Messages of execution $1 and route $2 whose next try is due by $3, after ($4 due at, $5 seq): at most $6,
-- and as many as have $7 bytes together, but at least one. `offset 0`: as in pipeline_find_messages.sql.
select route, seq, parent_route, parent_seq, root, hops, at, body, attempts, due_at
from (
  select
    *, sum(bytes) over (order by due_at, seq) as total, row_number() over (order by due_at, seq) as place
  from (
    select m.*, p.attempts, p.due_at
    from umbra.pipeline_parked as p
    cross join lateral (
      select *
      from umbra.pipeline_messages
      where execution = p.execution and route = p.route and seq = p.seq
      offset 0
    ) as m
    where p.execution = $1::text::bigint
      and p.route = $2::text::smallint
      and p.due_at <= $3::text::bigint
      and (p.due_at, p.seq) > ($4::text::bigint, $5::text::bigint)
    order by p.due_at, p.seq
    limit $6::text::bigint
  ) as page
) as summed
where place = 1 or total <= $7::text::bigint
order by due_at, seq
