-- The schedules of an owner after the name @after, by name: at most @limit, and at most @max_bytes bytes of documents
-- unless the first is larger. found: more than the rows if these are not all.
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
    where owner = @owner::text and name > @after::text
    order by name
    limit @limit::text::bigint + 1
  ) as page
) as summed
where place = 1 or (place <= @limit::text::bigint and total <= @max_bytes::text::bigint)
order by name
