-- Tokens, including revoked ones, oldest first (ids rise with time); those of one owner if @owner is not null,
-- those after the id @after if that is not null, at most @limit unless it is null.
select
  id, hash, owner, scopes, last_four, created_at, revoked_at, rate_limit, max_unfinished_jobs, max_body_bytes
from umbra.tokens
where (@owner::text is null or owner = @owner::text) and (@after::text is null or id > @after::text::uuid)
order by id
limit @limit::text::int
