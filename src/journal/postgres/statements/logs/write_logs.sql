-- Stores log rows, one record each ($1, as in append.sql). Rows of jobs that are not in the store are left out; the lock keeps
-- retention from removing a job meanwhile, and does not conflict with appends. Two writers that choose the same position
-- for a job wait for each other, and the second fails with a duplicate key: positions become visible in their order.
with given as materialized (
  select
    r[1]::uuid as job_id, r[2] as node_id, r[3]::int as item, r[4]::int as fence, r[5]::int as attempt,
    r[6]::int as first_line, r[7]::int as last_line, r[8]::smallint as level, r[9] as lines, number
  from (
    select string_to_array(record, chr(31)) as r, number
    from unnest(string_to_array($1::text, chr(30))) with ordinality as u (record, number)
    offset 0
  ) as n
),
known as materialized (
  select j.id
  from umbra.jobs as j
  where j.id = any (array(select distinct job_id from given))
  order by j.id
  for key share of j
),
places as materialized (
  select k.id, coalesce(l.position, 0) as last
  from known as k
  left join lateral (
    select position from umbra.node_logs where job_id = k.id order by position desc limit 1
  ) as l on true
)
insert into umbra.node_logs
  (job_id, position, node_id, item, fence, attempt, first_line, last_line, level, bytes, lines)
select
  g.job_id, p.last + row_number() over (partition by g.job_id order by g.number), g.node_id, g.item, g.fence,
  g.attempt, g.first_line, g.last_line, g.level, octet_length(g.lines), g.lines
from given as g
join places as p on p.id = g.job_id
order by g.job_id, g.number
on conflict (job_id, node_id, item, fence, first_line) do nothing
