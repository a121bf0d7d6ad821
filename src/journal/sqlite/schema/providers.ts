/**
 * The tables of the provider store (providers.ts). Names, external ids and event ids contain no control
 * character at which the driver would truncate a text; texts for people (`reason`, `code`, `message`) are
 * stored as JSON strings, so that any character survives. `item` counts from 0; -1: the node itself.
 */
export const providerTables = `
-- Outbound rate (GCRA): no request goes out before next_at, and each moves it on. factor is the share of the configured
-- rate in use: halved by a 429, restored step by step.
create table provider_pace (
  provider text primary key,
  next_at real not null,
  factor real not null
) strict, without rowid;

-- A slot is a lease: held until held_until; null: still waiting, in the order of id. An id is never used twice: it names
-- the message that tells of a grant.
create table slots (
  id integer primary key autoincrement,
  provider text not null,
  job_id text not null,
  node integer not null,
  item integer not null,
  partition integer not null,
  owner text not null,
  asked_at integer not null,
  granted_at integer,
  held_until integer,
  unique (provider, job_id, node, item)
) strict;

-- The next of each owner without a look at everybody who waits.
create index slots_waiting on slots (provider, owner, id) where held_until is null;
-- How many each owner holds, and whose lease has ended.
create index slots_held on slots (provider, held_until, owner) where held_until is not null;
-- Renewal, and slots that are held without an operation.
create index slots_partition on slots (partition, held_until) where held_until is not null;
-- Released with the node's or the job's end.
create index slots_job on slots (job_id, node, item);

-- The grant in which an owner last had its turn: of owners that hold equally many, the one with the lowest is next.
create table slot_turns (
  provider text not null,
  owner text not null,
  turn integer not null,
  primary key (provider, owner)
) strict, without rowid;

-- The number of the last grant.
create index slot_turns_turn on slot_turns (provider, turn);

-- Which job waits for which operation. Stays after the end, so that a late webhook is recognised as late.
-- A submission that was in flight, or had no answer, when its job ended has unseen = 1 and an external_id that is not the
-- provider's; operation is the number in its idempotency key. Until slot_until the row counts as a slot of its provider,
-- since the operation may be running or is being cancelled.
create table operations (
  provider text not null,
  external_id text not null,
  job_id text not null,
  node integer not null,
  item integer not null,
  partition integer not null,
  attempt integer not null,
  submitted_at integer not null,
  ended_at integer,
  -- When the provider is to be asked to cancel it; null: not at all, or it was.
  cancel_at integer,
  cancel_tries integer not null default 0,
  slot_until integer,
  unseen integer not null default 0,
  operation integer not null default 0,
  primary key (provider, external_id, job_id, node, item)
) strict;

create index operations_job on operations (job_id, node, item);
create index operations_cancel_at on operations (partition, cancel_at) where cancel_at is not null;
create index operations_slot_until on operations (provider, slot_until) where slot_until is not null;
create index operations_unseen on operations (partition) where unseen = 1;
-- The overview of a provider counts these, however many have ended.
create index operations_open on operations (provider) where ended_at is null;

-- Whose an operation is.
create table operation_claims (
  provider text not null,
  external_id text not null,
  owner text not null,
  claimed_at integer not null,
  primary key (provider, external_id)
) strict, without rowid;

create index operation_claims_claimed_at on operation_claims (claimed_at);

-- Every webhook that was accepted or refused. event_id recognises a repeated delivery; a refused one has none. news is
-- what the job is told. parked: no node waits for that operation yet.
create table webhook_events (
  id integer primary key autoincrement,
  provider text not null,
  event_id text,
  external_id text,
  received_at integer not null,
  verdict text not null,
  reason text,
  bytes integer not null,
  news text,
  unique (provider, event_id)
) strict;

create index webhook_events_parked on webhook_events (provider, external_id) where verdict = 'parked';
create index webhook_events_provider on webhook_events (provider, id);
create index webhook_events_received_at on webhook_events (received_at);

-- The last failures of each provider, for people.
create table provider_errors (
  id integer primary key autoincrement,
  provider text not null,
  at integer not null,
  what text not null,
  code text not null,
  message text not null
) strict;

create index provider_errors_provider on provider_errors (provider, id);
`

/** As in 0021_refused_webhooks.sql of PostgreSQL. */
export const refusedWebhooks = `
-- Webhooks that the log of a job shows: those of its operations that were refused, or arrived too late.
create index webhook_events_refused on webhook_events (provider, external_id, id)
  where verdict in ('late', 'refused') and external_id is not null;
`
