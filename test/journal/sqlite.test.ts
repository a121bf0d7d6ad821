import { mkdtemp, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { UmbraError } from "../../src/errors.ts"
import { JournalUnavailableError } from "../../src/journal/errors.ts"
import { openDatabase } from "../../src/journal/sqlite/driver.ts"
import { openFolder } from "../../src/journal/sqlite/folder.ts"
import { ThreadClient } from "../../src/journal/sqlite/thread/client.ts"
import { journalContract } from "./contract.ts"
import { batch, fact, hold } from "./fixture.ts"
import { freshFolder } from "./folder.ts"
import { startChild } from "./process.ts"

journalContract("SQLite in a folder", async () => {
  const folder = await mkdtemp(join(tmpdir(), "umbra-journal-"))
  const journal = await openFolder(folder)
  const close = async () => {
    await journal.close()
    await rm(folder, { recursive: true, force: true })
  }
  return { journal, peer: journal, close }
})

describe("SQLite in a folder", () => {
  it("keeps what was stored when it is closed and opened again", async () => {
    const folder = await freshFolder()
    const first = await openFolder(folder)
    expect(first.capabilities).toMatchObject({ exclusive: true, durable: true, partitions: 64 })
    const held = await hold(first)
    const stored = fact(held, 1)
    await first.append(batch(held, { facts: [stored] }))
    await first.close()
    await expect(first.readFacts([stored.jobId])).rejects.toBeInstanceOf(JournalUnavailableError)
    const second = await openFolder(folder)
    onTestFinished(() => second.close())
    expect(await second.readFacts([stored.jobId])).toHaveLength(1)
    expect((await second.readPartitions())[held.partition]).toMatchObject({
      epoch: held.epoch,
      owner: held.engine,
    })
  })

  it("makes files that only their owner may read, and marks them as Umbra's", async () => {
    const folder = await freshFolder()
    const journal = await openFolder(folder)
    onTestFinished(() => journal.close())
    await hold(journal)
    const file = join(folder, "umbra.db")
    for (const name of [file, `${file}-wal`, `${file}-shm`])
      expect((await stat(name)).mode & 0o777).toBe(0o600)
    const database = openDatabase(file, { readOnly: true })
    onTestFinished(() => database.close())
    const pragma = (name: string) => Object.values(database.prepare(`pragma ${name}`).get() as object)[0]
    expect(pragma("application_id")).toBe(0x556d6272)
    expect(pragma("user_version")).toBe(14)
    expect(pragma("journal_mode")).toBe("wal")
    // 2: incremental.
    expect(pragma("auto_vacuum")).toBe(2)
  })

  it("refuses a second opening in the same process", async () => {
    const folder = await freshFolder()
    const journal = await openFolder(folder)
    onTestFinished(() => journal.close())
    await expect(openFolder(folder)).rejects.toMatchObject({ code: "E503", details: { pid: process.pid } })
  })

  it("refuses a second process by naming the first, and loses nothing acknowledged when that is killed", async () => {
    const folder = await freshFolder()
    const child = startChild(folder)
    onTestFinished(() => child.kill())
    const jobId = (await child.says("opened")).split(" ")[1]!
    const refusal = await openFolder(folder).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(UmbraError)
    expect(refusal).toMatchObject({ code: "E503", details: { pid: child.pid } })
    expect((refusal as Error).message).toContain(`process ${child.pid} since 2`)

    await expect.poll(() => child.lines.length).toBeGreaterThan(50)
    await child.kill()
    const journal = await openFolder(folder)
    onTestFinished(() => journal.close())
    const stored = new Set((await journal.readFacts([jobId])).map(row => String(row.seq)))
    const acknowledged = child.lines.slice(1)
    expect(acknowledged.filter(seq => !stored.has(seq))).toEqual([])
    // At most the one whose answer the kill has swallowed.
    expect(stored.size - acknowledged.length).toBeLessThanOrEqual(1)
  })

  it("lets exactly one of several processes take over what a killed one left", async () => {
    const folder = await freshFolder()
    const holder = startChild(folder, "hold")
    await holder.says("opened")
    await holder.kill()
    const starters = [1, 2, 3].map(() => startChild(folder, "hold"))
    onTestFinished(async () => void (await Promise.all(starters.map(starter => starter.kill()))))
    const answers = await Promise.all(
      starters.map(starter => Promise.any([starter.says("opened"), starter.says("failed")])),
    )
    const winner = starters.find((_, index) => answers[index]?.startsWith("opened"))
    expect(answers.filter(line => line.startsWith("opened"))).toHaveLength(1)
    const refused = answers.filter(line => line.startsWith("failed E503"))
    expect(refused).toHaveLength(2)
    for (const line of refused) expect(line).toContain(`process ${winner?.pid}`)
  })

  it("says what is wrong with a folder it cannot use", async () => {
    const file = join(await freshFolder(), "file")
    await writeFile(file, "")
    await expect(openFolder(file)).rejects.toMatchObject({
      code: "E504",
      message: expect.stringContaining("it is a file"),
    })
    await expect(openFolder(join(file, "inside"))).rejects.toMatchObject({ code: "E504" })
  })

  // Node's own way of making folders with their parents never ends there.
  it.runIf(process.platform === "linux")(
    "S2 says at once that no folder can be made at a place",
    async () => {
      for (const place of ["/proc/x", "/proc/x/y/z", "/sys/x"])
        await expect(openFolder(place), place).rejects.toMatchObject({
          code: "E504",
          message: expect.stringMatching(/cannot be used: .*Choose a writable one/s),
        })
    },
  )

  it("starts its thread again after a crash, with everything that was stored", async () => {
    const file = join(await freshFolder(), "umbra.db")
    const client = new ThreadClient({ file, label: "it", synchronous: "full", retry: { tries: 1 } })
    onTestFinished(() => client.close())
    const messages = [{ partition: 1, jobId: "j", command: "{}", sentAt: 1 }]
    expect(await client.call("journal", "sendMessages", [messages, ["cause"]])).toEqual([1])
    // The answer is a function, which cannot be sent: the thread fails, as with an exhausted heap.
    const crash = client.call("journal", "__lookupGetter__", ["__proto__"])
    const pending = client.call("journal", "readPartitions", [])
    await expect(crash).rejects.toBeInstanceOf(JournalUnavailableError)
    await expect(pending).rejects.toBeInstanceOf(JournalUnavailableError)
    const query = { partitions: [1], limit: 9 }
    await expect.poll(() => client.call("journal", "readMessages", [query]).catch(() => [])).toHaveLength(1)
  })
})
