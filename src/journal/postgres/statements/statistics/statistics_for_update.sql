-- The roll-ups in the name of partition @partition for these keys: owners (@owners), workflows (@workflows), versions
-- (@versions), hours (@hours). Not locked: statistics_write.sql writes only if nothing was written since.
select s.owner, s.workflow, s.version, s.hour, s.node, s.data
from unnest(@owners::text::text[], @workflows::text::text[], @versions::text::int[], @hours::text::bigint[])
  as k (owner, workflow, version, hour)
join umbra.node_stats as s
  on s.owner = k.owner and s.workflow = k.workflow and s.hour = k.hour and s.version = k.version
where s.partition = @partition::text::int
