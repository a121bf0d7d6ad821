-- As read_logs.sql, of one node ($7), and one attempt of it if $8 is not null.
select
  l.position, l.node_id, l.item, l.fence, l.attempt, l.first_line, l.last_line, l.level,
  l.first_line - 1 - coalesce((
    select b.last_line
    from umbra.node_logs as b
    where b.job_id = l.job_id and b.node_id = l.node_id and b.item = l.item and b.fence = l.fence
      and b.first_line < l.first_line
    order by b.first_line desc
    limit 1
  ), 0) as lost,
  case
    when l.level >= $3::text::int and coalesce(sum(l.bytes) filter (where l.level >= $3::text::int) over (
      order by l.position * $6::text::int rows between unbounded preceding and 1 preceding
    ), 0) < $5::text::bigint
    then l.lines
  end as lines
from (
  (
    select *
    from umbra.node_logs
    where $6::text::int > 0 and job_id = $1::text::uuid and node_id = $7::text and position >= $2::text::bigint
      and ($8::text is null or attempt = $8::text::int)
    order by position
    limit $4::text::bigint
  )
  union all
  (
    select *
    from umbra.node_logs
    where $6::text::int < 0 and job_id = $1::text::uuid and node_id = $7::text and position <= $2::text::bigint
      and ($8::text is null or attempt = $8::text::int)
    order by position desc
    limit $4::text::bigint
  )
) as l
order by l.position * $6::text::int
