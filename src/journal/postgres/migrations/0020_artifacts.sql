-- Artifacts (src/journal/port/artifacts.ts): the content that an owner has. What refers to it is in umbra.held.
create table umbra.artifacts (
  owner text not null,
  hash text not null,
  bytes bigint not null,
  created_at bigint not null,
  last_put_at bigint not null,
  claimed_at bigint not null,
  marked_at bigint,
  removed_at bigint,
  key text,
  type text not null,
  name text not null,
  primary key (owner, hash)
);

-- Whether content at a key is in use.
create unique index artifacts_key on umbra.artifacts (key) where key is not null;
create index artifacts_marked on umbra.artifacts (marked_at) where marked_at is not null;
