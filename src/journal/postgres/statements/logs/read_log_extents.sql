-- Where the rows of each of these attempts of a job (@job_id) are, in their order; @attempts is one record each (node, item, fence, shown
-- attempt, run or 0), as in append.sql: the number of the last stored line (0: none) of the run, or of any if it is 0 or not known of the rows,
-- the positions of the first and the last row of all runs, and whether rows of an earlier fence show the same attempt.
select
  coalesce(z.last_line, 0) as last_line, a.position as first, z.position as last,
  exists (
    select 1
    from umbra.node_logs as e
    where e.job_id = @job_id::text::uuid and e.node_id = n.r[1] and e.item = n.r[2]::int and e.fence < n.r[3]::int
      and e.attempt = n.r[4]::int
  ) as is_repeated
from (
  select string_to_array(record, chr(31)) as r, number
  from unnest(string_to_array(@attempts::text, chr(30))) with ordinality as u (record, number)
  offset 0
) as n
-- A comparison of whole keys, in their order, is answered by the index alone, whatever the planner knows of the table.
left join lateral (
  select l.run, l.node_id = n.r[1] and l.item = n.r[2]::int and l.fence = n.r[3]::int as is_same
  from umbra.node_logs as l
  where l.job_id = @job_id::text::uuid and (l.node_id, l.item, l.fence) <= (n.r[1], n.r[2]::int, n.r[3]::int)
  order by l.job_id desc, l.node_id desc, l.item desc, l.fence desc, l.run desc, l.first_line desc
  limit 1
) as m on true
left join lateral (
  select l.position
  from umbra.node_logs as l
  where m.is_same and l.job_id = @job_id::text::uuid
    and (l.node_id, l.item, l.fence) >= (n.r[1], n.r[2]::int, n.r[3]::int)
  order by l.job_id, l.node_id, l.item, l.fence, l.run, l.first_line
  limit 1
) as a on true
left join lateral (
  select
    max(e.position) as position,
    max(e.last_line) filter (where n.r[5]::int in (0, e.run_id) or e.run_id = 0) as last_line
  from generate_series(1, case when m.is_same then m.run else 0 end) as s (run)
  cross join lateral (
    select l.position, l.last_line, l.run_id
    from umbra.node_logs as l
    where l.job_id = @job_id::text::uuid
      and (l.node_id, l.item, l.fence, l.run) <= (n.r[1], n.r[2]::int, n.r[3]::int, s.run)
    order by l.job_id desc, l.node_id desc, l.item desc, l.fence desc, l.run desc, l.first_line desc
    limit 1
  ) as e
) as z on true
order by n.number
