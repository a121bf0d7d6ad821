-- The first claim keeps the key. No row: a claim committed while this one waited for it; sent again, the
-- statement sees it.
with claimed as (
  insert into umbra.idempotency_keys (owner, key, job_id, fingerprint, created_at)
  values (@owner::text, @key::text, @job_id::text::uuid, @fingerprint::text, @created_at::text::bigint)
  on conflict do nothing
  returning job_id, fingerprint, created_at
)
select job_id, fingerprint, created_at from claimed
union all
select job_id, fingerprint, created_at from umbra.idempotency_keys where owner = @owner::text and key = @key::text
