-- Stores log rows, one record each ($1, as in append.sql). Rows of jobs that are not in the store are left out; the lock keeps
-- retention from removing a job meanwhile, and does not conflict with appends. So are rows with lines that come before or among
-- those that are stored of their run, or precede them in $1: rows that are sent again, and rows that arrive too late.
--
-- Positions of a job have no gaps: of two writers that are active for a job at the same time, both choose the position after the last
-- row, the second waits for the first, and fails with a duplicate key. So positions become visible in their order, and what a writer
-- has read of a run is up to date.
with given as materialized (
  select
    r[1]::uuid as job_id, r[2] as node_id, r[3]::int as item, r[4]::int as fence, r[5]::int as attempt,
    r[6]::int as run_id, r[7]::int as first_line, r[8]::int as last_line, r[9]::smallint as level, r[10] as lines, number
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
),
-- With the first row of its run among them, and the last line of those before it.
ordered as materialized (
  select
    g.*,
    first_value(g.number) over run as begins,
    max(g.last_line) over (run rows between unbounded preceding and 1 preceding) as before
  from given as g
  window run as (partition by g.job_id, g.node_id, g.item, g.fence, g.run_id order by g.number)
),
-- With the last row of their attempt (t), and that of their run, which is mostly the same (s). A comparison of whole keys, in their order, is
-- answered by the index alone, whatever the planner knows of the table.
placed as materialized (
  select
    o.*, p.last, case when t.is_same then t.run else 0 end as runs,
    case when t.is_same and t.run_id = o.run_id then t.run else s.run end as stored_run,
    case when t.is_same and t.run_id = o.run_id then t.last_line else s.last_line end as stored_line
  from ordered as o
  join places as p on p.id = o.job_id
  left join lateral (
    select
      l.run, l.run_id, l.last_line,
      l.job_id = o.job_id and l.node_id = o.node_id and l.item = o.item and l.fence = o.fence as is_same
    from umbra.node_logs as l
    where (l.job_id, l.node_id, l.item, l.fence) <= (o.job_id, o.node_id, o.item, o.fence)
    order by l.job_id desc, l.node_id desc, l.item desc, l.fence desc, l.run desc, l.first_line desc
    limit 1
  ) as t on true
  left join lateral (
    select l.run, l.last_line
    from umbra.node_logs as l
    where t.is_same and t.run_id <> o.run_id
      and l.job_id = o.job_id and l.node_id = o.node_id and l.item = o.item and l.fence = o.fence and l.run_id = o.run_id
    order by l.first_line desc
    limit 1
  ) as s on true
)
insert into umbra.node_logs
  (job_id, position, node_id, item, fence, attempt, run_id, run, first_line, last_line, level, bytes, lines)
select
  f.job_id, f.last + row_number() over (partition by f.job_id order by f.number), f.node_id, f.item, f.fence,
  f.attempt, f.run_id,
  coalesce(f.stored_run, f.runs + dense_rank() over (
    partition by f.job_id, f.node_id, f.item, f.fence, f.stored_run order by f.begins
  )),
  f.first_line, f.last_line, f.level, octet_length(f.lines), f.lines
from placed as f
where f.first_line > coalesce(f.before, 0) and f.first_line > coalesce(f.stored_line, 0)
order by f.job_id, f.number
