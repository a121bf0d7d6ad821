-- The facts committed in some partitions (@partitions) after a position (@after) and up to another (@up_to), of the jobs of
-- some owners (@owners; null: all owners). Reads at most @limit facts of a partition; data over @inline_bytes bytes is left out.
-- Two lists as one: how far each partition was read and how many facts that were (`looked`), and the facts of
-- those owners.
--
-- The owner is that of the job: a column of the journal would cost every append what only a stream needs. The
-- data is read by the primary key, after the facts of other owners have been removed.
with heads as materialized (
  select
    r.id, r.after,
    least(
      r.up_to,
      coalesce((select f.seq from umbra.journal as f where f.partition = r.id order by f.seq desc limit 1), 0)
    ) as head
  from unnest(@partitions::text::int[], @after::text::bigint[], @up_to::text::bigint[]) as r (id, after, up_to)
),
looked as materialized (
  select l.partition, l.seq, l.job_id
  from heads as h
  cross join lateral (
    select f.partition, f.seq, f.job_id
    from umbra.journal as f
    where f.partition = h.id and f.seq > h.after and f.seq <= h.head
    order by f.seq
    limit @limit::text::bigint
  ) as l
  where h.head > h.after
)
select
  h.id as partition, case when l.looked >= @limit::text::bigint then l.seq else h.head end as seq,
  coalesce(l.looked, 0) as looked, null as job_id, null::bigint as at, null as type, null as data, null::int as bytes, null as owner
from heads as h
left join (select partition, max(seq) as seq, count(*) as looked from looked group by partition) as l on l.partition = h.id
where h.head > h.after
union all
select
  o.partition, o.seq, null, o.job_id::text, f.at, f.type,
  case when f.bytes <= @inline_bytes::text::bigint then f.data end::text, f.bytes, o.owner
from (
  select l.partition, l.job_id, l.seq, j.owner
  from looked as l
  join umbra.jobs as j on j.id = l.job_id and (@owners::text is null or j.owner = any (@owners::text::text[]))
  offset 0
) as o
join umbra.journal as f on f.job_id = o.job_id and f.seq = o.seq
