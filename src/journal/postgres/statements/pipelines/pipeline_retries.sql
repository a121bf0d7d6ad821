-- Messages of execution @execution and route @route whose next try is due by @due_by, after (@after_due_at due at,
-- @after_seq seq): at most @limit, and as many as have @max_bytes bytes together, but at least one. `offset 0`: as in
-- pipeline_find_messages.sql.
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
    where p.execution = @execution::text::bigint
      and p.route = @route::text::smallint
      and p.due_at <= @due_by::text::bigint
      and (p.due_at, p.seq) > (@after_due_at::text::bigint, @after_seq::text::bigint)
    order by p.due_at, p.seq
    limit @limit::text::bigint
  ) as page
) as summed
where place = 1 or total <= @max_bytes::text::bigint
order by due_at, seq
