/** Files that are not, or no longer, a database of Umbra: refused with what to do, and left as they are. */
import { createHash } from "node:crypto"
import { existsSync } from "node:fs"
import { cp, mkdir, mkdtemp, open, readdir, readFile, rm, stat, truncate, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { messageCommand } from "../../src/journal/message-command.ts"
import { openDatabase } from "../../src/journal/sqlite/driver.ts"
import { openFolder } from "../../src/journal/sqlite/folder.ts"
import { openReadOnly } from "../../src/journal/sqlite/read-only.ts"
import { batch, fact, hold, newId, newJob } from "./fixture.ts"
import { freshFolder } from "./folder.ts"

const PAGE = 4096

const hash = async (file: string) =>
  createHash("sha256")
    .update(await readFile(file))
    .digest("hex")

let made: string
let jobId: string
beforeAll(async () => {
  made = await mkdtemp(join(tmpdir(), "umbra-journal-"))
  const journal = await openFolder(made)
  const held = await hold(journal)
  const jobs = Array.from({ length: 200 }, (_, n) => newJob(held, n + 1, { id: newId() }))
  jobId = jobs[0]!.id
  const facts = jobs.map((job, n) => fact(held, n + 1, { jobId: job.id, data: `{"n":"${"x".repeat(200)}"}` }))
  await journal.append(batch(held, { facts, newJobs: jobs }))
  await journal.close()
})
afterAll(() => rm(made, { recursive: true, force: true }))

/** A folder with 200 jobs that no process has open. */
async function closedFolder(): Promise<string> {
  const folder = await freshFolder()
  await cp(join(made, "umbra.db"), join(folder, "umbra.db"))
  return folder
}

async function overwrite(file: string, at: number, bytes: Buffer): Promise<void> {
  const handle = await open(file, "r+")
  await handle.write(bytes, 0, bytes.length, at)
  await handle.close()
}

function execute(file: string, sql: string): void {
  const database = openDatabase(file)
  database.exec(sql)
  database.close()
}

interface Case {
  readonly name: string
  readonly damage: (file: string) => Promise<void> | void
  readonly code: string
  readonly says: string
}

const cases: readonly Case[] = [
  {
    name: "random bytes",
    damage: file => writeFile(file, createHash("sha512").update("random").digest()),
    code: "E508",
    says: "is not an SQLite database",
  },
  {
    name: "a file without a byte",
    damage: file => truncate(file, 0),
    code: "E508",
    says: "is empty",
  },
  {
    name: "another program's database, in rollback mode",
    damage: async file => {
      await rm(file)
      execute(file, "create table notes (id integer); insert into notes values (1)")
    },
    code: "E508",
    says: "another program",
  },
  {
    name: "another program's database with its own application id",
    damage: file => execute(file, "pragma application_id = 1234"),
    code: "E508",
    says: "another program",
  },
  {
    name: "a file that was cut off",
    damage: file => truncate(file, 10 * PAGE),
    code: "E508",
    says: "Its file is damaged",
  },
  {
    name: "a file of which the first page is left",
    damage: file => truncate(file, PAGE),
    code: "E508",
    says: "Its file is damaged",
  },
  {
    name: "a list of tables that was overwritten",
    damage: file => overwrite(file, 100, Buffer.alloc(64, 0xa5)),
    code: "E508",
    says: "Its file is damaged",
  },
  {
    name: "a file of a later version",
    damage: file => execute(file, "pragma journal_mode = delete; pragma user_version = 1000"),
    code: "E505",
    says: "later version of Umbra",
  },
]

describe("a folder's database", () => {
  for (const { name, damage, code, says } of cases)
    it(`is refused and left as it is: ${name}`, async () => {
      const folder = await closedFolder()
      const file = join(folder, "umbra.db")
      await damage(file)
      const before = await hash(file)
      const refusal = await openFolder(folder).catch((error: unknown) => error)
      expect(refusal).toMatchObject({ code, message: expect.stringContaining(says) })
      expect((refusal as Error).message).toMatch(
        /not changed.*(docs\/operations\/backup\.md|another folder|Update)/,
      )
      await expect(openReadOnly(folder)).rejects.toMatchObject({ code })
      expect(await hash(file)).toBe(before)
    })

  for (const [name, at, bytes, code] of [
    ["a list of tables that was overwritten", 100, Buffer.alloc(64, 0xa5), "E508"],
    ["a later version", 60, Buffer.from([0, 0, 3, 232]), "E505"],
  ] as const)
    it(`is refused and left as it is, with the write-ahead log of a killed process: ${name}`, async () => {
      const [folder, left] = [await freshFolder(), await freshFolder()]
      const journal = await openFolder(folder)
      onTestFinished(() => journal.close())
      await hold(journal)
      const files = ["umbra.db", "umbra.db-wal"]
      for (const file of files) await cp(join(folder, file), join(left, file))
      await overwrite(join(left, "umbra.db"), at, bytes)
      const hashes = () => Promise.all(files.map(file => hash(join(left, file))))
      const before = await hashes()
      await expect(openFolder(left)).rejects.toMatchObject({ code })
      expect(await hashes()).toEqual(before)
    })

  it("is completed if an earlier version wrote it, and no message is lost", async () => {
    const folder = await closedFolder()
    execute(
      join(folder, "umbra.db"),
      `drop table inbox;
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
       create index inbox_open on inbox (partition, id) where answer is null and withdrawn = 0;
       insert into inbox (partition, job_id, sent_at, cause, command) values
         (3, '${jobId}', 1, 'a', '{"type":"grant_slot","node":4}'), (3, '${jobId}', 2, 'b', '{}');
       delete from inbox where cause = 'b';
       drop table job_marks;
       drop index webhook_events_refused;
       alter table jobs drop column fingerprint;
       alter table jobs drop column stats;
       drop table journal_orphans;
       drop table node_stats;
       drop table statistics_watermarks;
       alter table jobs drop column forked_from;
       alter table jobs drop column definition;
       drop table held;
       drop table artifacts;
       drop table definitions;
       drop table sessions;
       drop table workflow_pauses;
       drop table fires;
       drop table schedules;
       drop table node_logs;
       drop table log_orphans;
       drop index pipeline_parked_left;
       alter table pipeline_parked drop column replay_body;
       drop index idempotency_keys_job;
       create index idempotency_keys_created_at on idempotency_keys (created_at);
       pragma user_version = 1`,
    )
    await expect(openReadOnly(folder)).rejects.toMatchObject({ code: "E505" })
    const journal = await openFolder(folder)
    onTestFinished(() => journal.close())
    const [message] = await journal.readMessages({ partitions: [3], limit: 10 })
    expect(messageCommand(message!)).toEqual({ type: "grant_slot", node: 4 })
    // An id is never used twice, not even that of a message that is gone.
    const sent = await journal.sendMessages([{ partition: 3, jobId, command: "{}", sentAt: 3 }])
    expect([message!.id, ...sent]).toEqual([1, 3])
  })

  it("reports damage in a page when the page is read, and a check finds it", async () => {
    const folder = await closedFolder()
    const file = join(folder, "umbra.db")
    const database = openDatabase(file, { readOnly: true })
    const { rootpage } = database
      .prepare("select rootpage from sqlite_schema where name = 'journal'")
      .get() as {
      rootpage: number
    }
    database.close()
    await overwrite(file, (rootpage - 1) * PAGE, Buffer.alloc(8, 0xff))
    const before = await hash(file)
    const journal = await openFolder(folder)
    await expect(journal.readFacts([jobId])).rejects.toMatchObject({
      code: "E508",
      message: expect.stringContaining("Its file is damaged"),
    })
    await journal.close()
    const readOnly = await openReadOnly(folder)
    expect(readOnly.checkIntegrity().join("\n")).toContain(`page ${rootpage}`)
    await readOnly.close()
    expect(await hash(file)).toBe(before)
  })

  it("is not created again beside the write-ahead log of one that is missing", async () => {
    const folder = await freshFolder()
    const wal = join(folder, "umbra.db-wal")
    await writeFile(wal, "frames")
    await expect(openFolder(folder)).rejects.toMatchObject({
      code: "E508",
      message: expect.stringContaining("is missing, but its write-ahead log exists"),
    })
    expect(await readFile(wal, "utf8")).toBe("frames")
    expect(existsSync(join(folder, "umbra.db"))).toBe(false)
  })

  it("is created again when the process that made it was killed half way", async () => {
    const folder = await freshFolder()
    await writeFile(join(folder, "umbra.db.new"), "half")
    await writeFile(join(folder, "umbra.db.new-journal"), "half")
    const journal = await openFolder(folder)
    onTestFinished(() => journal.close())
    expect(await journal.readPartitions()).toHaveLength(64)
    expect((await readdir(folder)).filter(name => name.includes(".new"))).toEqual([])
    expect((await stat(join(folder, "umbra.db"))).mode & 0o777).toBe(0o600)
  })

  it("of 0.1.0 is refused with what to do", async () => {
    const folder = await freshFolder()
    await mkdir(join(folder, "database"))
    await writeFile(join(folder, "database", "PG_VERSION"), "17")
    const refusal = {
      code: "E505",
      message: expect.stringMatching(/earlier version of Umbra.*Choose another folder.*remove .*database/),
    }
    await expect(openFolder(folder)).rejects.toMatchObject(refusal)
    await expect(openReadOnly(folder)).rejects.toMatchObject(refusal)
    expect(await readdir(folder)).toEqual(["database"])
  })
})
