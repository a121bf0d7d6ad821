-- The schedules of an owner after the name $2, by name: at most $3, and at most $4 bytes of documents unless the first is
-- larger. found: more than the rows if these are not all.
select
  id, owner, name, partition, revision, document, created_at, updated_at, paused_at, last_tick, queued_tick, last_job,
  next_at, found
from (
  select
    *,
    sum(octet_length(document::text)) over (order by name) as total,
    row_number() over (order by name) as place,
    count(*) over () as found
  from (
    select *
    from umbra.schedules
    where owner = $1::text and name > $2::text
    order by name
    limit $3::text::bigint + 1
  ) as page
) as summed
where place = 1 or (place <= $3::text::bigint and total <= $4::text::bigint)
order by name
