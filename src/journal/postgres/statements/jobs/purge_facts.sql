-- Retention: removes at most @limit facts of jobs that purge.sql has removed. Reads @orphans of these jobs; those without
-- remaining facts are done. Two engines never remove the same facts: each skips what the other has locked.
with orphans as materialized (
  select job_id, seq from umbra.journal_orphans order by job_id limit @orphans::text::bigint for update skip locked
),
page as materialized (
  select l.place
  from orphans as o
  cross join lateral (
    select ctid as place from umbra.journal where job_id = o.job_id and seq <= o.seq limit @limit::text::bigint
  ) as l
  limit @limit::text::bigint
),
facts as (
  delete from umbra.journal where ctid = any (array(select place from page)) returning 1
),
done as (
  delete from umbra.journal_orphans as j
  using orphans
  where j.job_id = orphans.job_id and (select count(*) from page) < @limit::text::bigint
  returning 1
)
select (select count(*) from facts) as facts, (select count(*) from done) as jobs
