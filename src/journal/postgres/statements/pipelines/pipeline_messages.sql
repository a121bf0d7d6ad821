-- Messages of execution @execution in the queue of route @route after seq @after: at most @limit, and as many as have
-- @max_bytes bytes together, but at least one. The bodies of the others are not read.
select route, seq, parent_route, parent_seq, root, hops, at, body
from (
  select *, sum(bytes) over (order by seq) as total, row_number() over (order by seq) as place
  from (
    select *
    from umbra.pipeline_messages
    where execution = @execution::text::bigint and route = @route::text::smallint and seq > @after::text::bigint
    order by seq
    limit @limit::text::bigint
  ) as page
) as summed
where place = 1 or total <= @max_bytes::text::bigint
order by seq
