import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdir, mkdtemp, readdir, rm, stat, truncate, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it, onTestFinished } from "vitest"
import { UmbraError } from "../../src/errors.ts"
import { JournalUnavailableError } from "../../src/journal/errors.ts"
import { migrate } from "../../src/journal/migrate.ts"
import { openPglite } from "../../src/journal/pglite.ts"
import { PgliteDatabase } from "../../src/journal/pglite-database.ts"
import { bringDatabase } from "../support/embedded.ts"
import { journalContract } from "./contract.ts"
import { batch, fact, hold } from "./fixture.ts"
import { freshFolder } from "./folder.ts"
import { startChild } from "./process.ts"

const copiedFolder = async () => bringDatabase(await freshFolder())

journalContract("PGlite", async () => {
  const folder = await mkdtemp(join(tmpdir(), "umbra-journal-"))
  const journal = await openPglite(await bringDatabase(folder))
  const close = async () => {
    await journal.close()
    await rm(folder, { recursive: true, force: true })
  }
  return { journal, peer: journal, close }
})

describe("PGlite", () => {
  it("keeps what was stored when it is closed and opened again", async () => {
    const folder = await copiedFolder()
    const first = await openPglite(folder)
    expect(first.capabilities).toMatchObject({ exclusive: true, durable: true, partitions: 64 })
    const held = await hold(first)
    const stored = fact(held, 1)
    await first.append(batch(held, { facts: [stored] }))
    await first.close()
    await expect(first.readFacts([stored.jobId])).rejects.toBeInstanceOf(JournalUnavailableError)
    const second = await openPglite(folder)
    onTestFinished(() => second.close())
    expect(await second.readFacts([stored.jobId])).toHaveLength(1)
    expect((await second.readPartitions())[held.partition]).toMatchObject({
      epoch: held.epoch,
      owner: held.engine,
    })
  })

  it("refuses a second opening in the same process", async () => {
    const folder = await copiedFolder()
    const journal = await openPglite(folder)
    onTestFinished(() => journal.close())
    await expect(openPglite(folder)).rejects.toMatchObject({ code: "E503", details: { pid: process.pid } })
  })

  it("refuses a second process by naming the first, and loses nothing acknowledged when that is killed", async () => {
    const folder = await copiedFolder()
    const child = startChild(folder)
    onTestFinished(() => child.kill())
    const jobId = (await child.says("opened")).split(" ")[1]!
    const refusal = await openPglite(folder).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(UmbraError)
    expect(refusal).toMatchObject({ code: "E503", details: { pid: child.pid } })
    expect((refusal as Error).message).toContain(`process ${child.pid} since 2`)

    await expect.poll(() => child.lines.length).toBeGreaterThan(50)
    await child.kill()
    const journal = await openPglite(folder)
    onTestFinished(() => journal.close())
    const stored = new Set((await journal.readFacts([jobId])).map(row => String(row.seq)))
    const acknowledged = child.lines.slice(1)
    expect(acknowledged.filter(seq => !stored.has(seq))).toEqual([])
    // At most the one whose answer the kill has swallowed.
    expect(stored.size - acknowledged.length).toBeLessThanOrEqual(1)
  })

  it("lets exactly one of several processes take over what a killed one left", async () => {
    const folder = await copiedFolder()
    const victim = startChild(folder, "hold")
    await victim.says("opened")
    await victim.kill()
    const starters = [1, 2, 3].map(() => startChild(folder, "hold"))
    onTestFinished(async () => void (await Promise.all(starters.map(starter => starter.kill()))))
    const said = await Promise.all(
      starters.map(starter => Promise.any([starter.says("opened"), starter.says("failed")])),
    )
    const winner = starters.find((_, index) => said[index]?.startsWith("opened"))
    expect(said.filter(line => line.startsWith("opened"))).toHaveLength(1)
    const refused = said.filter(line => line.startsWith("failed E503"))
    expect(refused).toHaveLength(2)
    for (const line of refused) expect(line).toContain(`process ${winner?.pid}`)
  })

  it("makes a database anew when the process making it was killed half way", async () => {
    const folder = await freshFolder()
    await mkdir(join(folder, "making-1", "database"), { recursive: true })
    await writeFile(join(folder, "making-1", "database", "PG_VERSION"), "half")
    const journal = await openPglite(folder)
    onTestFinished(() => journal.close())
    expect(await journal.readPartitions()).toHaveLength(64)
    expect((await readdir(folder)).filter(name => name.startsWith("making-"))).toEqual([])
  })

  it("a process that is killed while it makes one takes along whoever makes it", async () => {
    const folder = await freshFolder()
    const victim = startChild(folder, "hold")
    onTestFinished(() => victim.kill())
    const making = async () => (await readdir(folder)).filter(name => name.startsWith("making-"))
    await expect.poll(making, { timeout: 60_000, interval: 10 }).toHaveLength(1)
    await victim.kill()
    const journal = await openPglite(folder)
    onTestFinished(() => journal.close())
    expect(await journal.readPartitions()).toHaveLength(64)
    expect(await making()).toEqual([])
    // A process that starts, and a database that is made from nothing: twenty seconds on a slow machine.
  }, 120_000)

  it("opens a folder whose process was killed while it opened it, before the lock file was filled", async () => {
    const folder = await copiedFolder()
    const opener = fileURLToPath(new URL("./killed-opener.js", import.meta.url))
    const victim = spawn(process.execPath, [opener, join(folder, "database")], { stdio: "inherit" })
    expect(await once(victim, "exit")).toEqual([null, "SIGKILL"])
    expect((await stat(join(folder, "database", "postmaster.pid"))).size).toBe(0)
    const journal = await openPglite(folder)
    onTestFinished(() => journal.close())
    expect(await journal.readPartitions()).toHaveLength(64)
  })

  it("says why files that are damaged cannot be opened, and what to do", async () => {
    const folder = await copiedFolder()
    await truncate(join(folder, "database", "global", "pg_control"), 100)
    const refusal = await openPglite(folder).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(JournalUnavailableError)
    const { message } = refusal as Error
    expect(message).toContain(`the embedded database in ${join(folder, "database")} cannot be opened`)
    expect(message).toContain('could not read file "global/pg_control"')
    expect(message).toContain("put the whole folder back from a backup")
  })

  it("says what is wrong with a folder it cannot use", async () => {
    const file = join(await freshFolder(), "file")
    await writeFile(file, "")
    await expect(openPglite(file)).rejects.toMatchObject({
      code: "E504",
      message: expect.stringContaining("it is a file"),
    })
    await expect(openPglite(join(file, "inside"))).rejects.toMatchObject({ code: "E504" })
  })

  // Node's own way of making folders with their parents never ends there.
  it.runIf(process.platform === "linux")(
    "S2 says at once that no folder can be made at a place",
    async () => {
      for (const place of ["/proc/x", "/proc/x/y/z", "/sys/x"])
        await expect(openPglite(place), place).rejects.toMatchObject({
          code: "E504",
          message: expect.stringMatching(/cannot be used: .*Choose one that can be written to/s),
        })
    },
  )

  it("starts its thread again after a crash, with everything that was stored", async () => {
    const folder = join(await copiedFolder(), "database")
    const database = new PgliteDatabase({ folder, label: "it", retry: { tries: 1 } })
    onTestFinished(() => database.close())
    await migrate(database)
    await database.query("sendMessages", [
      ["1", "00000000-0000-7000-8000-000000000000", "1", "cause", "{}"].join("\u001f"),
    ])
    // No text: it breaks the protocol writer inside the thread, as an exhausted heap would.
    const crash = database
      .query("readAnswers", [Symbol.iterator as unknown as string, "{}"])
      .catch((error: unknown) => error)
    const broken = database.query("readAnswers", [{} as unknown as string, "{}"])
    const pending = database.query("readAnswers", ["{1}", "{}"])
    expect(await crash).toBeInstanceOf(JournalUnavailableError)
    await expect(broken).rejects.toBeInstanceOf(JournalUnavailableError)
    await Promise.allSettled([pending])
    await expect.poll(() => database.query("readMessages", ["{1}", "9"]).catch(() => [])).toHaveLength(1)
  })
})
