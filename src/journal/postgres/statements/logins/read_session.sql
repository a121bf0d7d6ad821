-- The session with this hash, with the limits of its token, unless it has expired at @at or its token is revoked.
select
  s.hash, s.token_id, s.subject, s.owner, s.scopes, s.created_at, s.expires_at,
  t.rate_limit, t.max_unfinished_jobs, t.max_body_bytes
from umbra.sessions s
left join umbra.tokens t on t.id = s.token_id
where s.hash = @hash::text and s.expires_at > @at::text::bigint
  and (s.token_id is null or (t.id is not null and t.revoked_at is null))
