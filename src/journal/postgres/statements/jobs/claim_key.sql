-- The first claim keeps the key. No row: a claim committed while this one waited for it; sent again, the
-- statement sees it.
with claimed as (
  insert into umbra.idempotency_keys (owner, key, job_id, fingerprint, created_at)
  values ($1::text, $2::text, $3::text::uuid, $4::text, $5::text::bigint)
  on conflict do nothing
  returning job_id, fingerprint, created_at
)
select job_id, fingerprint, created_at from claimed
union all
select job_id, fingerprint, created_at from umbra.idempotency_keys where owner = $1::text and key = $2::text
