-- The roll-ups of workflow $2 of owner $1 for hours from $3 to before $4, of version $5 or, without it, of all.
select version, node, data
from umbra.node_stats
where owner = $1 and workflow = $2 and hour >= $3::text::bigint and hour < $4::text::bigint
  and ($5::text is null or version = $5::text::int)
