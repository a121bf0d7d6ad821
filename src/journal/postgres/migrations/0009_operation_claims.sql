-- Whose an operation at a provider is. An operation that was recorded before belongs to the owner that submitted first.

create table umbra.operation_claims (
  provider text not null,
  external_id text not null,
  owner text not null,
  claimed_at bigint not null,
  primary key (provider, external_id)
);

-- For tidy.sql.
create index operation_claims_claimed_at on umbra.operation_claims (claimed_at);

insert into umbra.operation_claims (provider, external_id, owner, claimed_at)
select distinct on (o.provider, o.external_id) o.provider, o.external_id, j.owner, o.submitted_at
from umbra.operations as o
join umbra.jobs as j on j.id = o.job_id
order by o.provider, o.external_id, o.submitted_at, o.job_id;

-- Slots are granted to owners in turn: the next of each owner without a look at everybody who waits.
drop index umbra.slots_waiting;
create index slots_waiting on umbra.slots (provider, owner, id) where held_until is null;

-- The version of the provider under which an owner was last granted a slot: of owners that hold equally many, the one
-- whose turn was longest ago is next.
create table umbra.slot_turns (
  provider text not null,
  owner text not null,
  version bigint not null,
  primary key (provider, owner)
);

-- A submission that was in flight, or had no answer, when its job ended is a row with `unseen` and no id of the provider's.
-- `slot_until`: until then the row counts as a slot of its provider, since the operation may be running or is being
-- cancelled. `operation` is the number in its idempotency key.
alter table umbra.operations
  add column unseen boolean not null default false,
  add column slot_until bigint,
  add column operation int not null default 0;

create index operations_slot_until on umbra.operations (provider, slot_until) where slot_until is not null;
create index operations_unseen on umbra.operations (partition) where unseen;
