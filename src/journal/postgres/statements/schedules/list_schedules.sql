-- The schedules of an owner after the name $2, by name.
select
  id, owner, name, partition, revision, document, created_at, updated_at, paused_at, last_tick, queued_tick, last_job,
  next_at
from umbra.schedules
where owner = $1::text and name > $2::text
order by name
limit $3::text::bigint
