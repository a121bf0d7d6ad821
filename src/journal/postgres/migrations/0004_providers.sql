-- External work: operations at providers, webhooks, slots and rates (X1 to X6). Times are milliseconds since 1970.

-- One row per provider that was ever used. `version` rises with every grant of slots: a grant that counted under an
-- older one writes nothing, so that two at once never exceed the limit.
create table umbra.providers (
  name text primary key,
  version bigint not null default 0
);

-- Outbound rate (GCRA): no request goes out before `next_at`, and each moves it on. `factor` is the share of the
-- configured rate in use: halved by a 429, restored step by step. Apart from `providers`: it changes with each request.
create table umbra.provider_pace (
  provider text primary key,
  next_at double precision not null default 0,
  factor double precision not null default 1
);

-- A slot is a lease: held until `held_until`; null: still waiting, in the order of `id`.
create table umbra.slots (
  provider text not null,
  job_id uuid not null,
  node int not null,
  id bigint generated always as identity,
  partition int not null,
  owner text not null,
  asked_at bigint not null,
  granted_at bigint,
  held_until bigint,
  primary key (provider, job_id, node)
);

-- Who is next, and whose lease has ended, without looking at everybody who waits.
create index slots_waiting on umbra.slots (provider, id) where held_until is null;
create index slots_held on umbra.slots (provider, held_until) where held_until is not null;
-- Released with the node's or the job's end.
create index slots_job on umbra.slots (job_id);

-- Which job waits for which operation. Stays after the end, so that what comes late is known for what it is.
create table umbra.operations (
  provider text not null,
  external_id text not null,
  job_id uuid not null,
  node int not null,
  partition int not null,
  attempt int not null,
  submitted_at bigint not null,
  ended_at bigint,
  -- When the provider is to be asked to cancel it; null: not at all, or it was.
  cancel_at bigint,
  cancel_tries int not null default 0,
  primary key (provider, external_id, job_id, node)
);

create index operations_job on umbra.operations (job_id, node);
create index operations_cancel_at on umbra.operations (partition, cancel_at) where cancel_at is not null;

-- Every webhook that was let in or refused. `event_id` recognises a repeated delivery; a refused one has none. `news`
-- is what the job is told. parked: nobody waits for that operation yet.
create table umbra.webhook_events (
  id bigint generated always as identity primary key,
  provider text not null,
  event_id text,
  external_id text,
  received_at bigint not null,
  verdict text not null,
  reason text,
  bytes int not null,
  news json,
  unique (provider, event_id)
);

create index webhook_events_parked on umbra.webhook_events (provider, external_id) where verdict = 'parked';
create index webhook_events_received_at on umbra.webhook_events (received_at);

-- The last failures of each provider, for people.
create table umbra.provider_errors (
  provider text not null,
  id bigint generated always as identity,
  at bigint not null,
  what text not null,
  code text not null,
  message text not null,
  primary key (provider, id)
);
