-- The number of the latest version that is not deleted. The definition stays on disk: every submission runs
-- this.
select version
from umbra.workflows
where owner = @owner::text and name = @name::text and deleted_at is null
order by version desc
limit 1
