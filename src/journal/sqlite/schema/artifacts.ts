/** Artifacts (journal/port/artifacts.ts); what refers to them is in `held`. */
export const artifactTables = `
create table artifacts (
  owner text not null,
  hash text not null,
  bytes integer not null,
  created_at integer not null,
  last_put_at integer not null,
  claimed_at integer not null,
  marked_at integer,
  removed_at integer,
  key text,
  type text not null,
  name text not null,
  primary key (owner, hash)
) strict, without rowid;

-- Whether content at a key is in use.
create unique index artifacts_key on artifacts (key) where key is not null;
create index artifacts_marked on artifacts (marked_at) where marked_at is not null;
`
