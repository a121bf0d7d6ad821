-- The number of the latest version that is not deleted. The definition stays on disk: every submission runs
-- this.
select version
from umbra.workflows
where owner = $1::text and name = $2::text and deleted_at is null
order by version desc
limit 1
