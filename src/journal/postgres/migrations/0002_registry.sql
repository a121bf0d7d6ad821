-- What a server needs beside running jobs: deleted workflows, aliases with their history, API tokens.

-- Set on every version that was there when the workflow was deleted. The rows stay: jobs that run need their version,
-- and the next push goes on counting.
alter table umbra.workflows add column deleted_at bigint;

-- `targets` is [[version, weight], …] by version, as the caller wrote it: equal targets are equal texts.
create table umbra.aliases (
  owner text not null,
  name text not null,
  alias text not null,
  moved_at bigint not null,
  moved_by text not null,
  targets json not null,
  primary key (owner, name, alias)
);

-- Who moved what. Null before the first move, and after the workflow was deleted.
create table umbra.alias_moves (
  owner text not null,
  name text not null,
  alias text not null,
  id bigint generated always as identity,
  moved_at bigint not null,
  moved_by text not null,
  moved_from json,
  moved_to json,
  primary key (owner, name, alias, id)
);

-- A token's text is never stored: `hash` is the sha256 of it, `last_four` what a person recognises it by.
create table umbra.tokens (
  id uuid primary key,
  hash text not null unique,
  owner text not null,
  scopes text not null,
  last_four text not null,
  created_at bigint not null,
  revoked_at bigint
);

create index tokens_owner on umbra.tokens (owner, id);
