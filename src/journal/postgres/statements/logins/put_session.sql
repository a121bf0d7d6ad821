-- Stores a session. Removes sessions that have expired at $6, and those of the same subject except the newest $8. Does nothing
-- if the session already exists.
with expired as (
  delete from umbra.sessions
  where hash in (
    select hash from umbra.sessions where expires_at <= $6::text::bigint order by expires_at limit 1000 for update skip locked
  )
),
surplus as (
  delete from umbra.sessions
  where hash in (
    select hash from umbra.sessions
    where subject = $3::text
    order by created_at desc, hash
    offset $8::text::int - 1
  )
)
insert into umbra.sessions (hash, token_id, subject, owner, scopes, created_at, expires_at)
values (
  $1::text, $2::text::uuid, $3::text, $4::text, $5::text, $6::text::bigint, $7::text::bigint
)
on conflict do nothing
