-- How many schedules the owner has; $2: that many or more.
select count(*)::int as count
from (select from umbra.schedules where owner = $1::text limit $2::text::bigint) as counted
