-- Retention: of at most @limit keys after that of job @after, in the order of their jobs' ids, removes those from before
-- @before whose job does not exist: purge.sql removes keys with their jobs, and these never had one. Returns the
-- number of keys that were read, and the last job.
with page as materialized (
  select owner, key, job_id, created_at
  from umbra.idempotency_keys
  where job_id > @after::text::uuid
  order by job_id
  limit @limit::text::bigint
),
abandoned as (
  delete from umbra.idempotency_keys as k
  using page
  where k.owner = page.owner and k.key = page.key and k.job_id = page.job_id
    and page.created_at < @before::text::bigint
    and not exists (select from umbra.jobs as j where j.id = page.job_id)
)
select count(*) as read, (select job_id from page order by job_id desc limit 1) as last from page
