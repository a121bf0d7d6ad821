-- The claim of an idempotency key (@owner, @key).
select job_id, fingerprint, created_at from umbra.idempotency_keys where owner = @owner::text and key = @key::text
