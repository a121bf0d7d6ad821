-- Retention: removes at most @limit log rows of jobs that purge.sql has removed. Reads @orphans of these jobs; those without
-- remaining rows are done. Two engines never remove the same rows: each skips what the other has locked.
with orphans as materialized (
  select job_id from umbra.log_orphans order by job_id limit @orphans::text::bigint for update skip locked
),
page as materialized (
  select l.place
  from orphans as o
  cross join lateral (
    select ctid as place from umbra.node_logs where job_id = o.job_id limit @limit::text::bigint
  ) as l
  limit @limit::text::bigint
),
rows as (
  delete from umbra.node_logs where ctid = any (array(select place from page)) returning 1
),
done as (
  delete from umbra.log_orphans as j
  using orphans
  where j.job_id = orphans.job_id and (select count(*) from page) < @limit::text::bigint
)
select count(*) as count from rows
