-- The number of the last stored line of each of these attempts of a job (@job_id), in their order; @attempts is one
-- record each (node, item, fence), as in append.sql. 0: no line is stored.
select
  coalesce((
    select l.last_line
    from umbra.node_logs as l
    where l.job_id = @job_id::text::uuid and l.node_id = n.r[1] and l.item = n.r[2]::int and l.fence = n.r[3]::int
    order by l.first_line desc
    limit 1
  ), 0) as last
from (
  select string_to_array(record, chr(31)) as r, number
  from unnest(string_to_array(@attempts::text, chr(30))) with ordinality as u (record, number)
  offset 0
) as n
order by n.number
