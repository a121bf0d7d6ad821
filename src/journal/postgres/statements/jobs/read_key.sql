-- The claim of an idempotency key ($1 owner, $2 key).
select job_id, fingerprint, created_at from umbra.idempotency_keys where owner = $1::text and key = $2::text
