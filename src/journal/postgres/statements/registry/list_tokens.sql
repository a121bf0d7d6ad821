-- Tokens, including revoked ones, oldest first (ids rise with time); those of one owner if $1 is not null,
-- those after the id $2 if that is not null, at most $3 unless it is null.
select
  id, hash, owner, scopes, last_four, created_at, revoked_at, rate_limit, max_unfinished_jobs, max_body_bytes
from umbra.tokens
where ($1::text is null or owner = $1::text) and ($2::text is null or id > $2::text::uuid)
order by id
limit $3::text::int
