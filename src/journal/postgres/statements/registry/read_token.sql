-- The token with this hash, unless it is revoked.
select
  id, hash, owner, scopes, last_four, created_at, revoked_at, rate_limit, max_unfinished_jobs, max_body_bytes
from umbra.tokens
where hash = @hash::text and revoked_at is null
