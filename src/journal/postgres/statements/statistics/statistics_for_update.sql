-- The roll-ups in the name of partition $1 for these keys: owners ($2), workflows ($3), versions ($4), hours ($5). Not
-- locked: statistics_write.sql writes only if nothing was written since.
select s.owner, s.workflow, s.version, s.hour, s.node, s.data
from unnest($2::text::text[], $3::text::text[], $4::text::int[], $5::text::bigint[])
  as k (owner, workflow, version, hour)
join umbra.node_stats as s
  on s.owner = k.owner and s.workflow = k.workflow and s.hour = k.hour and s.version = k.version
where s.partition = $1::text::int
