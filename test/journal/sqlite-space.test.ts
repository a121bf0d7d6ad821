/** How much of the disk a folder takes. */
import { stat } from "node:fs/promises"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import type { Journal } from "../../src/journal/port/journal.ts"
import { openDatabase } from "../../src/journal/sqlite/driver.ts"
import { openFolder } from "../../src/journal/sqlite/folder.ts"
import { batch, fact, type Held, hold, newJob } from "./fixture.ts"
import { freshFolder } from "./folder.ts"

const MB = 2 ** 20
const WAL_BYTES = 64 * MB
/** What one append adds to the WAL, its indexes included. */
const APPEND_BYTES = 6 * MB

const sizeOf = async (file: string) => (await stat(file)).size

/** Appends facts of 4 MB in all. */
async function append(journal: Journal, held: Held, first: number): Promise<void> {
  const data = JSON.stringify({ text: "x".repeat(MB / 4) })
  await journal.append(
    batch(held, { facts: Array.from({ length: 16 }, (_, n) => fact(held, first + n, { data })) }),
  )
}

it("the WAL stays within its bound under appends that never pause, and is cut back after a long reader", async () => {
  const folder = await freshFolder()
  const journal = await openFolder(folder)
  onTestFinished(() => journal.close())
  const held = await hold(journal)
  const wal = join(folder, "umbra.db-wal")
  let counter = 1
  const appendMany = async (times: number) => {
    let most = 0
    for (let n = 0; n < times; n++, counter += 16) {
      await append(journal, held, counter)
      most = Math.max(most, await sizeOf(wal))
    }
    return most
  }
  expect(await appendMany(18)).toBeLessThanOrEqual(WAL_BYTES + APPEND_BYTES)
  const reader = openDatabase(join(folder, "umbra.db"), { readOnly: true })
  reader.exec("begin; select count(*) from jobs")
  expect(await appendMany(18)).toBeGreaterThan(WAL_BYTES + APPEND_BYTES)
  reader.exec("commit")
  reader.close()
  await appendMany(2)
  expect(await sizeOf(wal)).toBeLessThanOrEqual(WAL_BYTES)
})

it("what retention removes makes the file smaller, without another write", async () => {
  const folder = await freshFolder()
  const journal = await openFolder(folder)
  onTestFinished(() => journal.close())
  const held = await hold(journal)
  const file = join(folder, "umbra.db")
  const data = JSON.stringify({ text: "x".repeat(MB / 4) })
  const jobs = Array.from({ length: 160 }, (_, n) =>
    newJob(held, n + 1, { status: "COMPLETED", finishedAt: 10 }),
  )
  for (const job of jobs)
    await journal.append(
      batch(held, { facts: [{ ...fact(held, 0), seq: job.seq, jobId: job.id, data }], newJobs: [job] }),
    )
  await expect.poll(() => sizeOf(file)).toBeGreaterThanOrEqual(40 * MB)
  const jobIds = jobs.map(job => job.id)
  expect(await journal.purge({ fences: [held], jobIds, before: 40, limit: 1000 })).toBe(160)
  await expect.poll(() => sizeOf(file)).toBeLessThan(8 * MB)
})
