-- The roll-ups of workflow $2 of owner $1 for hours from $3 to before $4, of version $5 or, without it, of all; those of all
-- partitions are one row, a line each: sixteen engines would give sixteen times the rows.
select version, node, string_agg(data, chr(10)) as data
from umbra.node_stats
where owner = $1 and workflow = $2 and hour >= $3::text::bigint and hour < $4::text::bigint
  and ($5::text is null or version = $5::text::int)
group by hour, version, node
