-- Moves the watermarks of partitions (@partitions, with epochs @epochs) from @from to @to, and stores roll-ups in the
-- name of partition @partition, one record each (@roll_ups, as in append.sql): all or nothing. The fence is that of
-- append.sql. A watermark that is not the expected one was moved by another owner, or by an earlier sending of this
-- statement: then it is `to` already.
with fence as materialized (
  select p.id
  from unnest(@partitions::text::int[], @epochs::text::bigint[]) as f (id, epoch)
  join umbra.partitions as p on p.id = f.id and p.epoch = f.epoch
  order by p.id
  for share of p
),
moves as materialized (
  select f.id, f.seq, f.next
  from unnest(@partitions::text::int[], @from::text::bigint[], @to::text::bigint[]) as f (id, seq, next)
),
expected as materialized (
  select w.partition
  from moves as m
  join umbra.statistics_watermarks as w on w.partition = m.id and w.seq = m.seq
  order by w.partition
  for update of w
),
verdict as materialized (
  select
    (select count(*) from fence) = (select count(*) from moves)
    and (select count(*) from expected) = (select count(*) from moves) as is_held
),
moved as (
  update umbra.statistics_watermarks as w
  set seq = m.next
  from moves as m
  where w.partition = m.id and (select is_held from verdict)
),
rows as (
  insert into umbra.node_stats (owner, workflow, version, hour, node, partition, data)
  select r[1], r[2], r[3]::int, r[4]::bigint, r[5], @partition::text::int, r[6]
  from records(@roll_ups) as n (r)
  where (select is_held from verdict)
  on conflict (owner, workflow, hour, version, node, partition) do update set data = excluded.data
)
select
  (select is_held from verdict) as is_held,
  (
    select count(*) = (select count(*) from moves)
    from moves as m
    join umbra.statistics_watermarks as w on w.partition = m.id and w.seq = m.next
  ) as is_done
