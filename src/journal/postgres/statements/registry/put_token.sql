-- Stores a token. Does nothing if it already exists.
insert into umbra.tokens (
  id, hash, owner, scopes, last_four, created_at, rate_limit, max_unfinished_jobs, max_body_bytes
)
values (
  @id::text::uuid, @hash::text, @owner::text, @scopes::text, @last_four::text, @created_at::text::bigint,
  @rate_limit::text::double precision, @max_unfinished_jobs::text::bigint, @max_body_bytes::text::bigint
)
on conflict do nothing
