-- How many schedules the owner has; @limit: that many or more.
select count(*)::int as count
from (select from umbra.schedules where owner = @owner::text limit @limit::text::bigint) as counted
