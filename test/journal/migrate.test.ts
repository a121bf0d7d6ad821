import { describe, expect, it } from "vitest"
import { UmbraError } from "../../src/errors.ts"
import { messageCommand } from "../../src/journal/message-command.ts"
import { type Migration, migrate } from "../../src/journal/postgres/migrate.ts"
import { openPostgres } from "../../src/journal/postgres/open.ts"
import { PostgresDatabase } from "../../src/journal/postgres/postgres-database.ts"
import { migrations } from "../../src/journal/postgres/sql.generated.ts"
import { postgresDefaults } from "../../src/journal/settings.ts"
import { batch, fact, hold, newId } from "./fixture.ts"
import { postgresStage } from "./postgres-stage.ts"
import { startChild } from "./process.ts"

describe("migrations", () => {
  it("run once when several processes start at once", async () => {
    const { url, bystander } = await postgresStage()
    const children = Array.from({ length: 3 }, () => startChild(url, "open"))
    const inProcess = Array.from({ length: 4 }, async () => (await openPostgres(url)).close())
    await Promise.all(inProcess)
    for (const child of children) expect(await child.ended()).toEqual(["closed"])
    const { rows } = await bystander.query("select id from umbra.migrations order by id")
    expect(rows.map(row => row.id)).toEqual(migrations.map(migration => migration.id))
    const partitions = await bystander.query("select count(*)::int as n from umbra.partitions")
    expect(partitions.rows[0].n).toBe(64)
  })

  it("refuse a database that a newer release has used", async () => {
    const { url, bystander, open } = await postgresStage()
    await open()
    await bystander.query("insert into umbra.migrations (id, name, checksum) values (999, 'future', 'x')")
    const error = await openPostgres(url).catch((found: unknown) => found)
    expect(error).toMatchObject({ code: "E505", details: { database: 999, release: migrations.at(-1)!.id } })
    expect((error as Error).message).toContain("A newer release")
  })

  it("refuse a database whose history is not this release's", async () => {
    const { url, bystander, open } = await postgresStage()
    await open()
    await bystander.query("update umbra.migrations set checksum = 'changed' where id = 1")
    await expect(openPostgres(url)).rejects.toMatchObject({ code: "E505", details: { migration: 1 } })
  })

  it("let versions that are stored, also by a process of the release before, keep the rules of their time", async () => {
    const { url, bystander } = await postgresStage()
    const database = new PostgresDatabase({ ...postgresDefaults, url, label: "it", retry: { tries: 1 } })
    const insert = (version: number) =>
      bystander.query(
        "insert into umbra.workflows (owner, name, version, hash, definition, created_at) values ('o', 'w', $1, 'h', '{}', 1)",
        [version],
      )
    try {
      await migrate(database, migrations.slice(0, 7))
      await insert(1)
      await migrate(database)
      await insert(2)
    } finally {
      await database.close()
    }
    const journal = await openPostgres(url)
    for (const version of [1, 2])
      expect(await journal.readWorkflow({ owner: "o", name: "w", version })).toMatchObject({
        ...{ rules: 1, pushedBy: null },
      })
    await journal.close()
  })

  it("let a process of the release before read messages that statements of this one send", async () => {
    const { bystander, open } = await postgresStage()
    const journal = await open()
    const held = await hold(journal)
    const { partition } = held
    const [first, second] = [newId(), newId()]
    const terms = { provider: "acme", leaseMs: 1000, at: 1 }
    const slot = { partition, owner: "ada", node: 4 }
    await journal.providers.requestSlots({ ...terms, limit: 1 }, [{ ...slot, jobId: first }])
    for (const task of [{ jobId: first, item: 7 }, { jobId: second }])
      await journal.providers.requestSlots({ ...terms, limit: 1 }, [{ ...slot, ...task }])
    await journal.providers.grantSlots({ ...terms, limit: 3 })
    const begun = [{ jobId: first, item: 0 }, { jobId: second }].map(task => ({
      ...{ partition, provider: "acme", externalId: "op", node: 5, attempt: 1, ...task },
      ...{ submittedAt: 1, endedAt: null, cancelAt: null },
    }))
    await journal.append(batch(held, { facts: [fact(held, 1)], begun }))
    await journal.providers.receiveEvent({
      ...{ provider: "acme", eventId: "e", externalId: "op", receivedAt: 1, verdict: "parked" },
      ...{ reason: null, bytes: 1, news: '{"externalId":"op","result":{"output":"\\u0000"}}' },
    })
    await journal.providers.deliverEvents({ operation: null, at: 1 })
    const { rows } = await bystander.query(
      "select job_id, command::text as command from umbra.inbox order by id",
    )
    const commands = rows.map(({ job_id: jobId, command }) => ({ jobId, command: JSON.parse(command) }))
    const sent = await journal.readMessages({ partitions: [partition], limit: 10 })
    expect(sent.map(row => ({ jobId: row.jobId, command: messageCommand(row) }))).toEqual(commands)
    const news = { externalId: "op", result: { output: "\u0000" } }
    expect(commands).toHaveLength(4)
    expect(commands).toEqual(
      expect.arrayContaining([
        { jobId: first, command: { type: "grant_slot", node: 4, item: 7 } },
        { jobId: second, command: { type: "grant_slot", node: 4 } },
        { jobId: first, command: { type: "external", node: 5, item: 0, ...news } },
        { jobId: second, command: { type: "external", node: 5, ...news } },
      ]),
    )
  })

  it("go forward from where the database is, and leave no trace when one fails", async () => {
    const { url, bystander } = await postgresStage()
    const database = new PostgresDatabase({ ...postgresDefaults, url, label: "it", retry: { tries: 1 } })
    const more = (name: string, sql: string): Migration[] => [
      ...migrations,
      { id: migrations.at(-1)!.id + 1, name, sql, checksum: name },
    ]
    try {
      await migrate(database)
      const failing = migrate(database, more("bad", "create table umbra.half (id int); select 1/0"))
      await expect(failing).rejects.toBeInstanceOf(UmbraError)
      const { rows } = await bystander.query("select to_regclass('umbra.half') as half")
      expect(rows[0].half).toBeNull()
      await migrate(database, more("good", "create table umbra.whole (id int)"))
      await migrate(database, more("good", "create table umbra.whole (id int)"))
      await expect(migrate(database)).rejects.toMatchObject({ code: "E505" })
    } finally {
      await database.close()
    }
  })
})
