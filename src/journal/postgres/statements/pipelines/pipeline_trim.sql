-- Retention: removes at most @limit rows of lineage of executions that ended before @before, with their messages: a
-- message that has lineage and is not parked was acknowledged. Reads @page executions; those without remaining
-- rows are done. Returns the number of removed rows, and whether there may be more.
with ended as materialized (
  select id
  from umbra.executions
  where ended_at < @before::text::bigint and not is_trimmed
  order by ended_at
  limit @page::text::bigint
  for update skip locked
),
page as materialized (
  select l.place, ended.id as execution, l.route, l.seq
  from ended
  cross join lateral (
    select ctid as place, route, seq
    from umbra.pipeline_lineage
    where execution = ended.id
    order by route, seq
    limit @limit::text::bigint
  ) as l
  limit @limit::text::bigint
),
lineage as (
  delete from umbra.pipeline_lineage where ctid = any (array(select place from page)) returning 1
),
messages as (
  delete from umbra.pipeline_messages as m
  using (select distinct execution, route, seq from page) as p
  where m.execution = p.execution and m.route = p.route and m.seq = p.seq
    and not exists (
      select from umbra.pipeline_parked as k
      where k.execution = p.execution and k.route = p.route and k.seq = p.seq
    )
  returning 1
),
figures as materialized (
  select (select count(*) from page) = @limit::text::bigint as is_cut, (select count(*) from ended) = @page::text::bigint as is_more
),
done as (
  update umbra.executions as e set is_trimmed = true
  from ended
  where e.id = ended.id and not (select is_cut from figures)
)
select (select count(*) from lineage) + (select count(*) from messages) as gone, is_cut or is_more as is_more from figures
