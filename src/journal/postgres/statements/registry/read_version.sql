-- Does this version (@version) exist, and is it not deleted? The definition stays on disk.
select version
from umbra.workflows
where owner = @owner::text and name = @name::text and version = @version::text::int and deleted_at is null
