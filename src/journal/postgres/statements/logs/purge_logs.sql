-- Retention: removes at most $1 log rows of jobs that purge.sql has removed. Reads $2 of these jobs; those without
-- remaining rows are done. Two engines never remove the same rows: each skips what the other has locked.
with orphans as materialized (
  select job_id from umbra.log_orphans order by job_id limit $2::text::bigint for update skip locked
),
page as materialized (
  select l.place
  from orphans as o
  cross join lateral (
    select ctid as place from umbra.node_logs where job_id = o.job_id limit $1::text::bigint
  ) as l
  limit $1::text::bigint
),
rows as (
  delete from umbra.node_logs where ctid = any (array(select place from page)) returning 1
),
done as (
  delete from umbra.log_orphans as j
  using orphans
  where j.job_id = orphans.job_id and (select count(*) from page) < $1::text::bigint
)
select count(*) as count from rows
