-- Does this version ($3) exist, and is it not deleted? The definition stays on disk.
select version
from umbra.workflows
where owner = $1::text and name = $2::text and version = $3::text::int and deleted_at is null
