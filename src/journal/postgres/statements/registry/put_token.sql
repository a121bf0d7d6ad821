-- Stores a token. Does nothing if it already exists.
insert into umbra.tokens (
  id, hash, owner, scopes, last_four, created_at, rate_limit, max_unfinished_jobs, max_body_bytes
)
values (
  $1::text::uuid, $2::text, $3::text, $4::text, $5::text, $6::text::bigint,
  $7::text::double precision, $8::text::bigint, $9::text::bigint
)
on conflict do nothing
