/** The verb fork of bulk operations: what is forked, what must be confirmed, and what is refused. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { backfillJobId, bulkForkId, idTime, isJobId, jobPartition, newJobId } from "../../src/engine/ids.ts"
import type { UmbraError } from "../../src/errors.ts"
import { parseBucket } from "../../src/journal/marks.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { flow, until } from "../engine/stage.ts"
import { adapter, route } from "../pipeline/scene.ts"
import { type FreshDatabase, freshDatabase } from "../support/services.ts"
import { countFactsOf, ended, forksOf, refusals } from "./stage.ts"

const fast = 10_000
const runs: string[] = []
let isBroken = true

function outcome(name: string, config: unknown): unknown {
  runs.push(name)
  if (isBroken && name !== "read") throw Object.assign(new Error("it is broken"), { retryable: false })
  return config
}

const handlers = [
  defineHandler({ name: "read", effects: false, run: config => outcome("read", config) }),
  defineHandler({ name: "check", effects: false, run: config => outcome("check", config) }),
  defineHandler({ name: "charge", effects: true, run: config => outcome("charge", config) }),
]

const pass = adapter("pass", ({ body }) => body)

const report = flow(
  [
    { id: "read", handler: "read", config: { value: 1 } },
    { id: "check", handler: "check", dependencies: ["read"], config: { value: 1 } },
  ],
  { name: "report", output: "{{ check.value }}" },
)
const order = flow(
  [
    { id: "read", handler: "read" },
    { id: "charge", handler: "charge", dependencies: ["read"] },
  ],
  { name: "order" },
)

beforeEach(() => {
  isBroken = true
  runs.length = 0
})

async function failed(
  umbra: Umbra,
  workflow: typeof report,
  owner: string,
  count: number,
): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    const job = await umbra.submit(workflow, {}, { owner, labels: { i: `${i}` } })
    expect((await job.wait()).status).toBe("FAILED")
    ids.push(job.id)
  }
  runs.length = 0
  return ids
}

describe.each(["sqlite", "postgres"])("bulk forks on %s", store => {
  let umbra: Umbra
  let database: FreshDatabase | null = null
  let folder = ""
  let owners = 0

  beforeAll(async () => {
    if (store === "postgres") database = await freshDatabase()
    else folder = await mkdtemp(join(tmpdir(), "umbra-bulk-"))
    umbra = await openUmbra(database?.url ?? join(folder, "umbra"), { handlers, adapters: [pass] })
  })

  afterAll(async () => {
    await umbra.close()
    await database?.drop()
    if (folder !== "") await rm(folder, { recursive: true, force: true })
  })

  const newOwner = () => `owner-${++owners}`

  it("forks what failed, takes over what completed, and leaves the origins and other owners' jobs as they are", async () => {
    const [owner, other] = [newOwner(), newOwner()]
    const origins = await failed(umbra, report, owner, 3)
    const [theirs] = await failed(umbra, report, other, 1)
    isBroken = false
    const request = { verb: "fork", filter: { workflow: "report" }, rate: fast } as const
    const counted = await umbra.bulk.count(request, { owner })
    expect(counted).toMatchObject({ count: 3, complete: true, by_status: { FAILED: 3 } })
    const nothing = { unsafe: [], unknown: [] }
    expect(counted.fork).toEqual({ previewed: 3, unconfirmed: nothing, refused: [] })
    expect((await umbra.queries.list({ owner, limit: 100 })).jobs).toHaveLength(3)

    const { bulk_id } = await umbra.bulk.start(request, { owner })
    expect(await ended(umbra, bulk_id)).toMatchObject({ status: "COMPLETED", done: 3, refused: 0, fork: {} })
    for (const [i, origin] of origins.entries()) {
      const id = bulkForkId(bulk_id, origin)
      expect(await forksOf(umbra, origin, bulk_id)).toEqual([id])
      expect(await umbra.wait(id)).toMatchObject({
        ...{ status: "COMPLETED", output: 1, forked_from: origin, owner, labels: { i: `${i}` } },
      })
      expect(await umbra.node(id, "read")).toMatchObject({ reused_from: origin })
      expect((await umbra.job(origin)).status).toBe("FAILED")
      expect(await countFactsOf(umbra, origin, bulk_id)).toBe(0)
    }
    expect(runs).toEqual(["check", "check", "check"])
    expect(await forksOf(umbra, theirs!, bulk_id)).toEqual([])
  })

  it("refuses and lists what would repeat effects that are not confirmed, and runs none of it", async () => {
    const owner = newOwner()
    const reports = await failed(umbra, report, owner, 2)
    const orders = await failed(umbra, order, owner, 3)
    isBroken = false
    const request = { verb: "fork", filter: { statuses: ["FAILED"] }, rate: fast } as const
    const { fork } = await umbra.bulk.count(request, { owner })
    expect(fork).toMatchObject({ previewed: 5, unconfirmed: { unsafe: ["charge"], unknown: [] } })
    expect(fork!.refused.map(({ job_id }) => job_id).sort()).toEqual([...orders].sort())

    const first = await umbra.bulk.start(request, { owner })
    expect(await ended(umbra, first.bulk_id)).toMatchObject({ processed: 5, done: 2, refused: 3 })
    const refused = await refusals(umbra, first.bulk_id, 2)
    expect(refused.map(({ job_id }) => job_id).sort()).toEqual([...orders].sort())
    expect(refused[0]).toMatchObject({ code: "E314", message: expect.stringContaining("charge") })
    for (const id of reports) await umbra.wait(bulkForkId(first.bulk_id, id))
    expect(runs).toEqual(["check", "check"])
    for (const id of orders) expect(await forksOf(umbra, id, first.bulk_id)).toEqual([])

    // A report has no node "charge": what is confirmed need not be in every target.
    const confirm = { unsafe: ["charge"] }
    const second = await umbra.bulk.start({ ...request, fork: { confirm } }, { owner })
    expect(await ended(umbra, second.bulk_id)).toMatchObject({ done: 5, refused: 0, fork: { confirm } })
    for (const id of [...reports, ...orders]) await umbra.wait(bulkForkId(second.bulk_id, id))
    expect(runs.filter(name => name === "charge")).toHaveLength(3)
  })

  it("runs nodes again, sets outputs, and refuses targets that lack a named node", async () => {
    const owner = newOwner()
    const reports = await failed(umbra, report, owner, 2)
    const [wrong] = await failed(umbra, order, owner, 1)
    isBroken = false
    const fork = { from: ["read"], overrides: { check: { output: { value: 7 } } } }
    const { bulk_id } = await umbra.bulk.start(
      { verb: "fork", filter: { createdFrom: 0 }, rate: fast, fork },
      { owner },
    )
    expect(await ended(umbra, bulk_id)).toMatchObject({ done: 2, refused: 1, fork })
    const [refused] = await refusals(umbra, bulk_id)
    expect(refused).toMatchObject({ job_id: wrong, code: "E309" })
    for (const id of reports) expect((await umbra.wait(bulkForkId(bulk_id, id))).output).toBe(7)
    expect(runs).toEqual(["read", "read"])
  })

  it("runs a changed config or definition, which is no version", async () => {
    const owner = newOwner()
    const origins = await failed(umbra, report, owner, 2)
    isBroken = false
    const changed = {
      ...report,
      nodes: [report.nodes[0]!, { ...report.nodes[1]!, config: { value: 5 } }],
    }
    const text = JSON.stringify(changed)
    for (const fork of [
      { overrides: { check: { config: { value: 5 } } } },
      { workflow: changed },
      { workflow: text },
    ]) {
      const request = { verb: "fork", filter: { statuses: ["FAILED"] }, rate: fast, fork } as const
      const { bulk_id } = await umbra.bulk.start(request, { owner })
      expect(await ended(umbra, bulk_id)).toMatchObject({ done: 2, refused: 0 })
      for (const id of origins)
        expect(await umbra.wait(bulkForkId(bulk_id, id))).toMatchObject({
          ...{ status: "COMPLETED", output: 5, workflow_version: null },
        })
    }
    expect(await umbra.workflow({ owner, name: "report", version: 2 })).toBeNull()
  })

  it("gives the same operation for the same key, and refuses another fork with it", async () => {
    const owner = newOwner()
    const [origin] = await failed(umbra, report, owner, 1)
    const request = { verb: "fork", filter: { workflow: "report" }, rate: fast } as const
    const first = await umbra.bulk.start(request, { owner, idempotencyKey: "once" })
    await ended(umbra, first.bulk_id)
    const again = await umbra.bulk.start(request, { owner, idempotencyKey: "once" })
    expect([again.is_new, again.bulk_id]).toEqual([false, first.bulk_id])
    const other = { ...request, fork: { from: ["read"] } }
    await expect(umbra.bulk.start(other, { owner, idempotencyKey: "once" })).rejects.toMatchObject({
      code: "E306",
    })
    expect((await umbra.queries.list({ forkedFrom: origin!, limit: 10 })).jobs).toHaveLength(1)
  })

  it("refuses what is not a request, and says what to do", async () => {
    const owner = newOwner()
    await failed(umbra, report, owner, 1)
    const refused = async (request: object, code: string) => {
      const given = { verb: "fork", filter: { workflow: "report" }, ...request }
      for (const start of ["start", "count"] as const) {
        const error = await umbra.bulk[start](given as never, { owner }).catch((thrown: UmbraError) => thrown)
        expect((error as UmbraError).code, JSON.stringify(given)).toBe(code)
        if (start === "start") expect((error as UmbraError).message).not.toBe("")
      }
    }
    await refused({ verb: "retry", fork: {} }, "E309")
    await refused({ fork: 3 }, "E309")
    await refused({ fork: { input: {} } }, "E309")
    await refused({ fork: { items: { a: [0] } } }, "E309")
    await refused({ fork: { never: 1 } }, "E309")
    await refused({ fork: { from: "read" } }, "E309")
    await refused({ fork: { confirm: { unknown: 1 } } }, "E309")
    await refused({ reason: "why" }, "E309")
    await refused({ fork: { workflow: "nothing@1" } }, "E305")
    await refused({ fork: { workflow: "report@1", from: ["nothing"] } }, "E309")
    await refused({ fork: { workflow: { name: "report", nodes: [{ id: "a" }] } } }, "E101")
    expect((await umbra.bulk.list({ owner })).operations).toEqual([])
  })

  it("refuses an execution of a pipeline", async () => {
    const owner = newOwner()
    const { id } = await umbra.submit({ name: "stream", routes: [route("in", ["pass"])] } as never, 1, {
      owner,
    })
    await umbra.wait(id)
    const { bulk_id } = await umbra.bulk.start(
      { verb: "fork", filter: { statuses: ["COMPLETED"] }, rate: fast },
      { owner },
    )
    expect(await ended(umbra, bulk_id)).toMatchObject({ done: 0, refused: 1 })
    expect(await refusals(umbra, bulk_id)).toMatchObject([{ job_id: id, code: "E309" }])
  })
})

it("forks the jobs of other engines", async () => {
  const database = await freshDatabase()
  const engine = { beatSeconds: 0.1, rebalanceSeconds: 0.1 }
  const first = await openUmbra(database.url, { handlers, engine })
  const second = await openUmbra(database.url, { handlers, engine })
  onTestFinished(async () => {
    await first.close()
    await second.close()
    await database.drop()
  })
  const origins = await failed(first, report, "ada", 4)
  await until("the second runs jobs of its own", async () => {
    const [id] = await failed(second, report, "ada", 1)
    origins.push(id!)
    return second.owns(id!)
  })
  origins.push(...(await failed(first, report, "ada", 4)))
  expect(new Set(origins.map(id => first.owns(id)))).toEqual(new Set([true, false]))
  isBroken = false
  const request = { verb: "fork", filter: { workflow: "report" }, rate: fast } as const
  const { bulk_id } = await first.bulk.start(request, { owner: "ada" })
  expect(await ended(first, bulk_id)).toMatchObject({
    ...{ status: "COMPLETED", done: origins.length, refused: 0 },
  })
  for (const id of origins) {
    expect(await forksOf(first, id, bulk_id)).toHaveLength(1)
    expect((await first.wait(bulkForkId(bulk_id, id))).status).toBe("COMPLETED")
  }
})

describe("between two targets", () => {
  async function stage(jobs: number) {
    const clock = new VirtualClock()
    const umbra = await openUmbra(openMemory(createMemoryStore({ partitions: 4 })), { clock, handlers })
    onTestFinished(() => umbra.close())
    const origins: string[] = []
    for (let i = 0; i < jobs; i++) {
      origins.push(...(await failed(umbra, report, "local", 1)))
      clock.advance(10)
    }
    const forked = async (operation: string) => {
      let count = 0
      for (const id of origins) count += (await forksOf(umbra, id, operation)).length
      return count
    }
    const untilEnded = (operation: string) =>
      until("the operation has ended", async () => {
        clock.advance(1000)
        return (await umbra.bulk.get(operation)).finished_at
      })
    return { clock, umbra, origins, forked, untilEnded }
  }

  it("a name means the version that it meant at the start", async () => {
    const { umbra, origins, forked, untilEnded } = await stage(3)
    const request = { verb: "fork", filter: { workflow: "report" }, rate: 1 } as const
    const { bulk_id, fork } = await umbra.bulk.start({ ...request, fork: { workflow: "report" } })
    expect(fork).toEqual({ workflow: "report@1" })
    await until("the first is forked", async () => (await forked(bulk_id)) === 1)
    await umbra.register({ ...report, description: "a new version" })
    await untilEnded(bulk_id)
    for (const id of origins) expect((await umbra.job(bulkForkId(bulk_id, id))).workflow_version).toBe(1)
    const later = await umbra.bulk.start({ ...request, fork: { workflow: "report" } })
    expect(later.fork).toEqual({ workflow: "report@2" })
    await umbra.bulk.abort(later.bulk_id)
    await untilEnded(later.bulk_id)
  })

  it("leaves a job alone that has changed, and forks of the operation too; resumed, it forks nothing twice", async () => {
    const { umbra, origins, forked, untilEnded } = await stage(4)
    const request = { verb: "fork", filter: { workflow: "report" }, rate: 1 } as const
    const { bulk_id } = await umbra.bulk.start(request)
    await until("the first is forked", async () => (await forked(bulk_id)) === 1)
    await umbra.bulk.abort(bulk_id)
    await untilEnded(bulk_id)
    expect(await umbra.bulk.get(bulk_id)).toMatchObject({ status: "CANCELLED", refused: 0 })
    // The newest has its fork, the oldest has none.
    for (const id of [origins[3]!, origins[0]!]) {
      await umbra.retry(id)
      await umbra.wait(id)
    }
    await umbra.retry(bulk_id)
    await untilEnded(bulk_id)
    expect(await umbra.bulk.get(bulk_id)).toMatchObject({ processed: 4, done: 3, refused: 1 })
    expect(await refusals(umbra, bulk_id)).toMatchObject([{ job_id: origins[0], code: "E316" }])
    expect(await forked(bulk_id)).toBe(3)
    const { jobs } = await umbra.queries.list({ limit: 100 })
    expect(jobs.filter(({ forkedFrom }) => forkedFrom !== null)).toHaveLength(3)
  })
})

it("the id of a fork follows from the operation and the origin, in the partition of the origin", () => {
  const operation = "0198c0de-7a11-7012-9abc-0123456789af"
  const origin = "0198c0dd-1234-7a3f-8000-ffffffffffff"
  const id = bulkForkId(operation, origin)
  expect(isJobId(id)).toBe(true)
  expect(jobPartition(id)).toBe(jobPartition(origin))
  expect(id.slice(13, 18)).toBe("-7a3f")
  expect(bulkForkId(operation, origin)).toBe(id)
  expect(bulkForkId(origin, operation)).not.toBe(id)
  expect(bulkForkId(operation, operation)).not.toBe(id)
})

it("the jobs of one operation are spread over buckets of ids, so that lists need not read all of them", () => {
  const at = Date.parse("2026-11-18T12:00:00Z")
  const operation = newJobId(5, at, 3)
  const origins = Array.from({ length: 20_000 }, (_, i) => newJobId(i % 64, at - i, 2))
  const forks = origins.map(origin => bulkForkId(operation, origin))
  const ticks = origins.map((_, i) => backfillJobId(operation, at - i * 60_000, 64))
  for (const ids of [forks, ticks]) {
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids.every(isJobId)).toBe(true)
    const later = ids.map(id => idTime(id) - at)
    // Below it they would be looked at as targets.
    expect(Math.min(...later)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...later)).toBeLessThan(4096)
    const buckets = new Map<number, number>()
    for (const id of ids) buckets.set(parseBucket(id), (buckets.get(parseBucket(id)) ?? 0) + 1)
    expect(Math.max(...buckets.values())).toBeLessThan(200)
  }
  expect(forks.map(id => id.slice(14, 18))).toEqual(origins.map(id => id.slice(14, 18)))
  expect(new Set(ticks.map(id => id.slice(14, 16)))).toEqual(new Set(["73"]))
  expect(new Set(ticks.map(jobPartition)).size).toBe(64)
})
