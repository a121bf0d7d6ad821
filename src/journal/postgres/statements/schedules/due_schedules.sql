-- Schedules of the partitions @partitions with a tick that fires until @at, the earliest first: at most @limit, at most
-- @limit_of_partition of one partition, and at most @max_bytes bytes of documents unless the first is larger. Reads at
-- most @limit_of_partition entries of the index for each partition.
select
  s.id, s.owner, s.name, s.partition, s.revision, s.document, s.created_at, s.updated_at, s.paused_at, s.last_tick,
  s.queued_tick, s.last_job, s.next_at
from (
  select
    page.id, page.next_at,
    sum(octet_length(d.document::text)) over (order by page.next_at, page.id) as total,
    row_number() over (order by page.next_at, page.id) as place
  from (
    select due.id, due.next_at
    from unnest(@partitions::text::int[]) as p (id)
    cross join lateral (
      select id, next_at
      from umbra.schedules
      where partition = p.id and next_at <= @at::text::bigint
      order by next_at
      limit @limit_of_partition::text::bigint
    ) as due
    order by due.next_at, due.id
    limit @limit::text::bigint
  ) as page
  join umbra.schedules as d on d.id = page.id
) as summed
join umbra.schedules as s on s.id = summed.id
where place = 1 or total <= @max_bytes::text::bigint
order by summed.next_at, summed.id
