-- Retention: removes at most @limit rows of executions whose job no longer exists. Reads @page executions; those
-- without remaining rows are removed too. Returns the number of removed rows, and whether there may be more.
with orphans as materialized (
  select id from umbra.executions where is_orphan order by id limit @page::text::bigint for update skip locked
),
page as materialized (
  select 'l' as kind, l.ctid as place from orphans join umbra.pipeline_lineage as l on l.execution = orphans.id
  union all
  select 'm', m.ctid from orphans join umbra.pipeline_messages as m on m.execution = orphans.id
  union all
  select 'p', p.ctid from orphans join umbra.pipeline_parked as p on p.execution = orphans.id
  union all
  select 's', s.ctid from orphans join umbra.pipeline_stored as s on s.execution = orphans.id
  limit @limit::text::bigint
),
lineage as (
  delete from umbra.pipeline_lineage where ctid = any (array(select place from page where kind = 'l'))
),
messages as (
  delete from umbra.pipeline_messages where ctid = any (array(select place from page where kind = 'm'))
),
parked as (
  delete from umbra.pipeline_parked where ctid = any (array(select place from page where kind = 'p'))
),
stored as (
  delete from umbra.pipeline_stored where ctid = any (array(select place from page where kind = 's'))
),
figures as materialized (
  select count(*) as gone, count(*) = @limit::text::bigint as is_cut from page
),
executions as (
  delete from umbra.executions as e using orphans where e.id = orphans.id and not (select is_cut from figures)
)
select gone, is_cut or (select count(*) from orphans) = @page::text::bigint as is_more from figures
