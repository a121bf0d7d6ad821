-- The journal as a feed: what happened since a position, for live streams.

-- Facts of a partition in the order they were committed. On the append it costs what noise does.
create index journal_feed on umbra.journal (partition, seq);

-- An owner's jobs that have not ended, however many have: what a stream begins with.
create index jobs_unfinished on umbra.jobs (owner, id) where finished_at is null;

-- Somebody reads live streams there: the others tell it of what they commit.
alter table umbra.engines add column follows boolean not null default false;

-- Which store this is. Positions of another one, made at the same place after it was deleted, mean nothing here.
create table umbra.store (id uuid not null);

insert into umbra.store (id) values (gen_random_uuid());
