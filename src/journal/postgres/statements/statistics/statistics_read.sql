-- The roll-ups of workflow @workflow of owner @owner for hours from @from to before @to, of version @version or,
-- without it, of all; those of all partitions are one row, a line each: sixteen engines would give sixteen times the
-- rows.
select version, node, string_agg(data, chr(10)) as data
from umbra.node_stats
where owner = @owner and workflow = @workflow and hour >= @from::text::bigint and hour < @to::text::bigint
  and (@version::text is null or version = @version::text::int)
group by hour, version, node
