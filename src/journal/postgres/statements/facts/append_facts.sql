-- append.sql for a batch that contains only facts, as most do: a completed node in the middle of a job
-- changes no projection. Starting the executor for the other five parts costs more than writing one fact. $1,
-- $2 fences, $3, $4 facts: as there. A batch that was stored before raises a duplicate key error, as there.
with fence as materialized (
  select p.id
  from unnest($1::text::int[], $2::text::bigint[]) as f (id, epoch)
  join umbra.partitions as p on p.id = f.id and p.epoch = f.epoch
  order by p.id
  for share of p
),
held as materialized (
  select coalesce(array_agg(id), '{}'::int[]) as ids from fence
),
facts as (
  insert into umbra.journal (job_id, seq, at, partition, bytes, type, data)
  select
    f.head[3]::uuid, f.head[2]::bigint, f.head[4]::bigint, f.head[1]::int, octet_length(f.data), f.head[5], f.data::json
  from (
    select string_to_array(u.head, chr(31)) as head, u.data
    from unnest(string_to_array($3::text, chr(30)), string_to_array($4::text, chr(30))) as u (head, data)
    offset 0
  ) as f
  where f.head[1]::int = any ((select ids from held)::int[])
  returning 1
)
select array_to_string((select ids from held), ','), (select count(*) from facts)
