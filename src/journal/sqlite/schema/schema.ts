/**
 * The tables of the embedded database, in steps: `user_version` of a file counts the steps it has. A step
 * that was released is never changed; a change is a new step. Times are milliseconds since 1970, given by the
 * caller. JSON is stored as text, unchanged. Every index costs throughput; its comment states its purpose.
 */
import { randomUUID } from "node:crypto"
import { UmbraError } from "../../../errors.ts"
import { storedEntries } from "../../marks.ts"
import { insertMarks } from "../append.ts"
import type { SqliteConnection } from "../database.ts"
import { openDatabase } from "../driver.ts"
import { artifactTables } from "./artifacts.ts"
import { logRuns, logTables } from "./logs.ts"
import { pipelineTables, replayedBodies } from "./pipelines.ts"
import { providerTables, refusedWebhooks } from "./providers.ts"
import { scheduleTables } from "./schedules.ts"
import { statisticsTables } from "./statistics.ts"

/** "Umbr": distinguishes our files from other SQLite databases. */
export const APPLICATION_ID = 0x556d6272

const journalTables = `
-- Fencing: epoch changes only at take-over.
create table partitions (
  id integer primary key,
  owner text,
  epoch integer not null
) strict;

-- Liveness: beat rises while the engine lives. purged_beat is the beat the last purge saw.
create table engines (
  id text primary key,
  place text not null,
  beat integer not null,
  follows integer not null,
  purged_beat integer
) strict, without rowid;

create table workflows (
  owner text not null,
  name text not null,
  version integer not null,
  hash text not null,
  created_at integer not null,
  deleted_at integer,
  pushed_by text,
  rules integer not null,
  definition text not null,
  primary key (owner, name, version)
) strict;

-- The latest version of each workflow: a list takes one step per workflow, not per version.
create index workflows_latest on workflows (owner, name, version desc) where deleted_at is null;

create table aliases (
  owner text not null,
  name text not null,
  alias text not null,
  moved_at integer not null,
  moved_by text not null,
  targets text not null,
  primary key (owner, name, alias)
) strict, without rowid;

create table alias_moves (
  id integer primary key autoincrement,
  owner text not null,
  name text not null,
  alias text not null,
  moved_at integer not null,
  moved_by text not null,
  moved_from text,
  moved_to text
) strict;

create index alias_moves_alias on alias_moves (owner, name, alias, id);

-- The text of a token is never stored: hash is the sha256 of it, last_four what a person recognises it by.
create table tokens (
  id text primary key,
  hash text not null unique,
  owner text not null,
  scopes text not null,
  last_four text not null,
  created_at integer not null,
  revoked_at integer,
  rate_limit real,
  max_unfinished_jobs integer,
  max_body_bytes integer
) strict, without rowid;

create index tokens_owner on tokens (owner, id);

-- One row per job, written with its facts. Large columns come last, so that the others are read without them.
create table jobs (
  id text primary key,
  seq integer not null,
  created_at integer not null,
  updated_at integer not null,
  finished_at integer,
  wake_at integer,
  partition integer not null,
  workflow_version integer not null,
  priority integer not null,
  status text not null,
  owner text not null,
  workflow text not null,
  parent_id text,
  submitted_by text,
  labels text,
  error text,
  output text
) strict, without rowid;

-- Due jobs of a partition in order, without looking at those that wait.
create index jobs_wake_at on jobs (partition, wake_at, id) where wake_at is not null;
-- Retention. Holds finished jobs only, so a running job never touches it.
create index jobs_finished_at on jobs (finished_at) where finished_at is not null;
-- One owner's list, newest first, however many jobs other owners have.
create index jobs_owner on jobs (owner, id);
-- An owner's jobs that have not ended, however many have: what a stream begins with.
create index jobs_unfinished on jobs (owner, id) where finished_at is null;

-- The truth. seq is epoch × 2^34 + counter. bytes is the size of data, so that a large output is passed over unread.
create table journal (
  job_id text not null,
  seq integer not null,
  at integer not null,
  partition integer not null,
  bytes integer not null,
  type text not null,
  data text not null,
  primary key (job_id, seq)
) strict, without rowid;

-- Facts of a partition in the order they were committed, for live streams.
create index journal_feed on journal (partition, seq);

-- Commands to a partition owned elsewhere. cause recognises a message that is sent again. An id is never used twice.
create table inbox (
  id integer primary key autoincrement,
  partition integer not null,
  job_id text not null,
  sent_at integer not null,
  withdrawn integer not null default 0,
  cause text not null unique,
  command text not null,
  answer text
) strict;

-- Open messages only: it is empty nearly always.
create index inbox_open on inbox (partition, id) where answer is null and withdrawn = 0;

create table idempotency_keys (
  owner text not null,
  key text not null,
  job_id text not null,
  fingerprint text not null,
  created_at integer not null,
  primary key (owner, key)
) strict, without rowid;

create index idempotency_keys_created_at on idempotency_keys (created_at);

-- Which store this is: positions of another one mean nothing here.
create table store (id text not null) strict;
`

/**
 * Messages that the store sends have columns instead of a command. SQLite cannot make `command` nullable in place. The
 * last id stays known, because an id is never used twice.
 */
const inboxColumns = `
alter table inbox rename to inbox_before;
drop index inbox_open;

-- kind is grant_slot or external; null: another process built the command. item -1: of the node itself. news is an
-- external command without its type, node and item.
create table inbox (
  id integer primary key autoincrement,
  partition integer not null,
  job_id text not null,
  sent_at integer not null,
  withdrawn integer not null default 0,
  cause text not null unique,
  command text,
  kind text,
  node integer,
  item integer,
  news text,
  answer text
) strict;

insert into inbox (id, partition, job_id, sent_at, withdrawn, cause, command, answer)
select id, partition, job_id, sent_at, withdrawn, cause, command, answer from inbox_before;
delete from sqlite_sequence where name = 'inbox';
insert into sqlite_sequence (name, seq) select 'inbox', seq from sqlite_sequence where name = 'inbox_before';
drop table inbox_before;
create index inbox_open on inbox (partition, id) where answer is null and withdrawn = 0;
`

/** stats is for metrics of a job that has ended; nothing writes it yet. */
const jobMarksTable = `
alter table jobs add column fingerprint text;
alter table jobs add column stats text;

-- What lists are filtered by (journal/marks.ts): jobs with ids of the bucket place / 256 may have the value of the mark.
create table job_marks (
  mark integer not null,
  place integer not null,
  primary key (mark, place)
) strict, without rowid;
`

const retention = `
-- Jobs that were removed, and whose facts up to seq are being removed in pages: a job may have a million. A job that is
-- submitted again under the same id (its idempotency key outlived it) has only higher ones.
create table journal_orphans (
  job_id text primary key,
  seq integer not null
) strict, without rowid;

-- A key is removed with its job. The ids begin with their time, so keys without a job are found in the same order as by
-- created_at.
create index idempotency_keys_job on idempotency_keys (job_id);
drop index idempotency_keys_created_at;
`

const forks = `
-- definition: the hash of a definition that is no version of the workflow; then workflow_version is 0.
alter table jobs add column forked_from text;
alter table jobs add column definition text;

-- What a job (by) refers to outside of itself: another job, by its id, or a definition, by its hash. Written in the append
-- that creates the job, removed with the job. Retention passes over what is held.
create table held (
  held text not null,
  by text not null,
  primary key (held, by)
) strict, without rowid;

create index held_by on held (by);

-- Definitions that are no version of their workflow. used_at: when a job last began with it.
create table definitions (
  hash text primary key,
  rules integer not null,
  used_at integer not null,
  definition text not null
) strict;
`

/** Logins of people, as in 0016_sessions.sql of PostgreSQL. */
const sessions = `
create table sessions (
  hash text primary key,
  token_id text,
  subject text not null,
  owner text not null,
  scopes text not null,
  created_at integer not null,
  expires_at integer not null
) strict, without rowid;

create index sessions_subject on sessions (subject, created_at);
create index sessions_expires_at on sessions (expires_at);
`

const workflowPauses = `
-- Workflows whose new jobs do not begin. resumed_at: jobs that were submitted while it was paused are being resumed; the
-- row is removed when that is done.
create table workflow_pauses (
  owner text not null,
  name text not null,
  paused_at integer not null,
  paused_by text,
  reason text,
  resumed_at integer,
  primary key (owner, name)
) strict, without rowid;
`

type Step = string | ((connection: SqliteConnection) => void)

const steps: readonly Step[] = [
  [journalTables, providerTables, pipelineTables].join("\n"),
  inboxColumns,
  connection => {
    connection.database.exec(jobMarksTable)
    markStoredJobs(connection)
  },
  retention,
  statisticsTables,
  forks,
  sessions,
  workflowPauses,
  scheduleTables,
  replayedBodies,
  logTables,
  artifactTables,
  refusedWebhooks,
  logRuns,
]

/** Creates or completes the tables. Rejects a file of a later version without changing it. */
export function prepareSchema(connection: SqliteConnection, file: string, partitions = 64): void {
  const version = schemaVersion(connection, file)
  if (version === steps.length) return
  connection.transaction(() => {
    for (const step of steps.slice(version))
      if (typeof step === "string") connection.database.exec(step)
      else step(connection)
    if (version === 0) fill(connection, partitions)
    connection.database.exec(
      `pragma application_id = ${APPLICATION_ID}; pragma user_version = ${steps.length}`,
    )
  })
}

/** Jobs that an earlier version stored. */
function markStoredJobs(connection: SqliteConnection): void {
  const sql = `select id, partition, status, updated_at as updatedAt, finished_at as finishedAt, error, fingerprint, owner,
      workflow, workflow_version as workflowVersion, created_at as createdAt, labels
    from jobs where id > ? order by id limit 1000`
  for (let after = ""; ; ) {
    const jobs = connection.all<Parameters<typeof storedEntries>[0][number]>(sql, after)
    if (jobs.length === 0) return
    insertMarks(connection, storedEntries(jobs))
    after = jobs.at(-1)!.id
  }
}

/** The last seq before the first owner of a partition. */
const NO_EPOCH_END = 2 ** 34 - 1

function fill(connection: SqliteConnection, partitions: number): void {
  for (let id = 0; id < partitions; id++) {
    connection.run("insert into partitions (id, owner, epoch) values (?, null, 0)", id)
    connection.run("insert into statistics_watermarks (partition, seq) values (?, ?)", id, NO_EPOCH_END)
  }
  connection.run("insert into store (id) values (?)", randomUUID())
}

/** The number of steps that the file has. Reads the list of tables, so that damage is detected now. */
export function schemaVersion(connection: SqliteConnection, file: string): number {
  connection.get("select name from sqlite_schema limit 1")
  const { user_version: version } = connection.get<{ user_version: number }>("pragma user_version")!
  refuseLater(version, file)
  return version
}

/**
 * The same check for a file with a write-ahead log, which a killed process left. A connection that may write moves the
 * log into the file when it is closed; this one cannot write. It prepares no statement: a driver closes a connection
 * only when its statements have been garbage-collected.
 */
export function checkBesideWal(file: string): void {
  const database = openDatabase(file, { readOnly: true })
  let version = 0
  database.function("found", value => {
    version = Number(value)
    return null
  })
  try {
    database.exec("pragma busy_timeout = 5000; select name from sqlite_schema limit 1")
    database.exec("select found(user_version) from pragma_user_version")
  } finally {
    database.close()
  }
  refuseLater(version, file)
}

function refuseLater(version: number, file: string): void {
  if (version > steps.length)
    throw new UmbraError(
      "E505",
      `${file} was written by a later version of Umbra (its tables are at step ${version}, this version knows ${steps.length}). It was not changed. Update this installation.`,
    )
}

/** For a connection that cannot complete the tables. */
export function mustBeCurrent(connection: SqliteConnection, file: string): void {
  if (schemaVersion(connection, file) < steps.length)
    throw new UmbraError(
      "E505",
      `${file} was written by an earlier version of Umbra. Open it once with \`umbra serve\` of this version, which completes its tables.`,
    )
}
