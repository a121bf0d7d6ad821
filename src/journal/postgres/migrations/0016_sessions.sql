-- Logins of people: a browser has a cookie with a random id, `hash` is the sha256 of it. `token_id` is the API token that was
-- exchanged, and the session ends with it; null: it was a JWT, and `expires_at` is not after its end.
create table umbra.sessions (
  hash text primary key,
  token_id uuid,
  subject text not null,
  owner text not null,
  scopes text not null,
  created_at bigint not null,
  expires_at bigint not null
);

create index sessions_subject on umbra.sessions (subject, created_at);
create index sessions_expires_at on umbra.sessions (expires_at);
