/** Several engines on one PostgreSQL. */
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { openJournal } from "../../src/journal/open.ts"
import type { Journal } from "../../src/journal/port/journal.ts"
import { check } from "../crash/check.ts"
import { Life } from "../crash/life.ts"
import { writeTask } from "../crash/task.ts"
import type { Shape, Workload } from "../crash/workload.ts"
import { type FreshDatabase, freshDatabase } from "../support/services.ts"
import { flow, gate, open, until } from "./stage.ts"

let database: FreshDatabase
let journal: Journal
beforeAll(async () => {
  database = await freshDatabase()
  journal = await openJournal(database.url)
})
afterAll(async () => {
  await journal.close()
  await database.drop()
})

const engine = { beatSeconds: 0.05, leaseSeconds: 1 }

async function freshFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "umbra-fleet-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Two steps that take a moment each: what is stopped or killed is in the middle of something. */
const slow: Shape = {
  definition: {
    name: "slow",
    nodes: [
      { id: "n0", handler: "step", config: { number: 1, ms: 150 } },
      { id: "total", handler: "step", config: { number: 2, ms: 150 }, dependencies: ["n0"] },
    ],
  },
  status: "COMPLETED",
  output: { total: { value: 3 } },
  dependencies: new Map([
    ["n0", []],
    ["total", ["n0"]],
  ]),
  executed: new Set(["n0", "total"]),
  children: new Map(),
}

function slowJobs(count: number): Workload {
  return { shapes: [slow], jobs: new Array(count).fill(0) }
}

describe("two engines in one process", () => {
  it("share the partitions, answer commands for each other's jobs, and take over what the other hands over", async () => {
    const busy = gate()
    const first = await open({ at: database.url, engine, handlers: [busy.handler] })
    const started = await first.submit(flow([{ id: "a", handler: "gate" }]))
    const second = await open({ at: database.url, engine, handlers: [busy.handler] })
    await until("both own half", async () => {
      const owners = (await journal.readPartitions()).map(row => row.owner)
      const counts = [...new Set(owners)].map(owner => owners.filter(other => other === owner).length)
      return counts.length === 2 && counts.every(count => count === 32)
    })
    const asked = await second.submit(flow([{ id: "a", handler: "gate" }]))
    expect(first.owns(asked.id)).toBe(false)
    await first.cancel(asked.id, "from the other side")
    expect((await second.wait(asked.id)).status).toBe("CANCELLED")
    await expect(first.cancel(asked.id)).rejects.toMatchObject({ code: "E302" })
    expect((await first.wait(asked.id)).status).toBe("CANCELLED")
    busy.open()
    expect((await second.wait(started.id)).status).toBe("COMPLETED")
    await second.close()
    await until(
      "the first has everything again",
      async () => new Set((await journal.readPartitions()).map(row => row.owner)).size === 1,
    )
  })
})

describe("processes", () => {
  it("jobs of a killed process continue in another, and its completed nodes do not run again", async () => {
    const folder = await freshFolder()
    const fresh = await freshDatabase()
    onTestFinished(fresh.drop)
    const workload = slowJobs(12)
    const task = await writeTask({ folder, location: fresh.url, workload })
    const doomed = new Life({ task, from: 0, to: 12, step: 1 })
    onTestFinished(() => doomed.kill().catch(() => {}))
    await until("second nodes run", async () => (await executions(folder)).includes(" total "), 60_000)
    await doomed.kill()
    // Jobs that the first process had not submitted yet are submitted by this one.
    const heir = new Life({ task, from: 0, to: 12, step: 1 })
    onTestFinished(() => heir.kill().catch(() => {}))
    const store = await openJournal(fresh.url)
    onTestFinished(() => store.close())
    await until(
      "all jobs have ended",
      async () => (await store.listJobs({ statuses: ["COMPLETED"], limit: 50 })).jobs.length === 12,
      60_000,
    )
    await heir.close()
    expect((await check({ journal: store, folder, workload })).violations).toEqual([])
  })

  it("a process stopped past its lease writes nothing when it resumes, and learns how its jobs ended", async () => {
    const folder = await freshFolder()
    const fresh = await freshDatabase()
    onTestFinished(fresh.drop)
    const workload = slowJobs(12)
    const task = await writeTask({ folder, location: fresh.url, workload })
    const stopped = new Life({ task, from: 0, to: 12, step: 1 })
    onTestFinished(() => stopped.kill().catch(() => {}))
    await until("second nodes run", async () => (await executions(folder)).includes(" total "), 60_000)
    stopped.signal("SIGSTOP")
    const heir = new Life({ task, from: 0, to: 12, step: 1 })
    onTestFinished(() => heir.kill().catch(() => {}))
    expect(await heir.says("idle", 60_000)).toBe(true)
    const store = await openJournal(fresh.url)
    onTestFinished(() => store.close())
    expect((await check({ journal: store, folder, workload })).violations).toEqual([])
    const before = await everything(store)
    // For the moment until its first append is refused it may still start handlers: at least once, as for any handler.
    stopped.signal("SIGCONT")
    expect(await stopped.says("idle", 60_000)).toBe(true)
    await stopped.close()
    expect(await everything(store)).toEqual(before)
    await heir.close()
  })
})

async function executions(folder: string): Promise<string> {
  return readFile(join(folder, "executions.log"), "utf8").catch(() => "")
}

async function everything(store: Journal) {
  const { jobs } = await store.listJobs({ limit: 100 }, { ms: 10_000 })
  return { jobs, facts: await store.readFacts(jobs.map(job => job.id)) }
}
