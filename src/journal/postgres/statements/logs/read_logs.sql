-- Log rows of a job (@job_id) from position @from on, at most @limit: upwards if @direction is 1, downwards if it is
-- -1. Lines are left out of rows below level @level, and of those after @max_bytes bytes.
--
-- read_logs: of all nodes. read_node_logs: of one node (@node_id), and one attempt of it if @attempt is not null.
-- read_item_logs: of one item (@item; -1: the node itself), whose rows are few enough to be sorted.
select
  l.position, l.node_id, l.item, l.fence, l.attempt, l.run, l.first_line, l.last_line, l.level,
  l.first_line - 1 - coalesce((
    -- Whole keys, in their order: the index alone answers this, whatever the planner knows of the table.
    select
      case when (b.node_id, b.item, b.fence, b.run) = (l.node_id, l.item, l.fence, l.run) then b.last_line end
    from umbra.node_logs as b
    where b.job_id = l.job_id
      and (b.node_id, b.item, b.fence, b.run, b.first_line) < (l.node_id, l.item, l.fence, l.run, l.first_line)
    order by b.job_id desc, b.node_id desc, b.item desc, b.fence desc, b.run desc, b.first_line desc
    limit 1
  ), 0) as lost,
  case
    when l.level >= @level::text::int and coalesce(sum(l.bytes) filter (where l.level >= @level::text::int) over (
      order by l.position * @direction::text::int rows between unbounded preceding and 1 preceding
    ), 0) < @max_bytes::text::bigint
    then l.lines
  end as lines
from (
  (
    select *
    from umbra.node_logs
    where @direction::text::int > 0 and job_id = @job_id::text::uuid and position >= @from::text::bigint
      -- only in read_node_logs, read_item_logs
      and node_id = @node_id::text and (@attempt::text is null or attempt = @attempt::text::int)
      -- end
      -- only in read_item_logs
      and item = @item::text::int
      -- end
    order by position
    limit @limit::text::bigint
  )
  union all
  (
    select *
    from umbra.node_logs
    where @direction::text::int < 0 and job_id = @job_id::text::uuid and position <= @from::text::bigint
      -- only in read_node_logs, read_item_logs
      and node_id = @node_id::text and (@attempt::text is null or attempt = @attempt::text::int)
      -- end
      -- only in read_item_logs
      and item = @item::text::int
      -- end
    order by position desc
    limit @limit::text::bigint
  )
) as l
order by l.position * @direction::text::int
