-- Stores a session. Removes sessions that have expired at @created_at, and those of the same subject except the newest
-- @keep. Does nothing if the session already exists.
with expired as (
  delete from umbra.sessions
  where hash in (
    select hash from umbra.sessions where expires_at <= @created_at::text::bigint order by expires_at limit 1000 for update skip locked
  )
),
surplus as (
  delete from umbra.sessions
  where hash in (
    select hash from umbra.sessions
    where subject = @subject::text
    order by created_at desc, hash
    offset @keep::text::int - 1
  )
)
insert into umbra.sessions (hash, token_id, subject, owner, scopes, created_at, expires_at)
values (
  @hash::text, @token_id::text::uuid, @subject::text, @owner::text, @scopes::text, @created_at::text::bigint, @expires_at::text::bigint
)
on conflict do nothing
