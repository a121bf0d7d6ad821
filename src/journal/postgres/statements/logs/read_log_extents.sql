-- Where the rows of each of these attempts of a job (@job_id) are, in their order; @attempts is one record each (node, item, fence, shown
-- attempt), as in append.sql: the number of the last stored line (0: none), the positions of the first and the last row, and
-- whether rows of an earlier fence show the same attempt.
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
left join lateral (
  select l.position
  from umbra.node_logs as l
  where l.job_id = @job_id::text::uuid and l.node_id = n.r[1] and l.item = n.r[2]::int and l.fence = n.r[3]::int
  order by l.first_line
  limit 1
) as a on true
left join lateral (
  select l.position, l.last_line
  from umbra.node_logs as l
  where l.job_id = @job_id::text::uuid and l.node_id = n.r[1] and l.item = n.r[2]::int and l.fence = n.r[3]::int
  order by l.first_line desc
  limit 1
) as z on true
order by n.number
