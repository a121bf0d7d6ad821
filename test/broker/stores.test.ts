/** Several stores on one Redis: whatever another database has left there, a fleet works. */
import { randomUUID } from "node:crypto"
import { describe, expect, it } from "vitest"
import { oldEpochsKey, storesKey } from "../../src/broker/redis/keys.ts"
import { announcementField, announceStore, shortStoreId } from "../../src/broker/redis/worker/stores.ts"
import { withLive } from "../../src/core/view/live-view.ts"
import { jobPartition } from "../../src/engine/ids.ts"
import { collectLog, flow, handler, until } from "../engine/stage.ts"
import { storeId } from "../support/store-tables.ts"
import { bareConnection, FleetStage } from "./stage.ts"

const one = flow([{ id: "a", handler: "where" }])
const where = (name: string) => handler("where", () => name)

/** Another store on the same Redis, under the same prefix. */
function beside(stage: FleetStage): FleetStage {
  const other = new FleetStage(stage.url)
  Object.assign(other.redis, { prefix: stage.redis.prefix })
  return other
}

/** As its engines do. */
async function announce(stage: FleetStage, id: string, label: string): Promise<void> {
  const { connection } = await bareConnection(stage)
  const send = (args: readonly string[]) => connection.send([...args])
  await announceStore(send, storesKey(stage.redis.prefix!), { id: shortStoreId(id), label, engine: "e" })
}

describe("a Redis that several stores use", () => {
  it("has served a database with many owners: jobs of a new one complete", async () => {
    const before = new FleetStage()
    for (let owners = 0; owners < 50; owners++) before.rob()
    const first = await before.engine()
    const old = before.worker({ handlers: [where("before")] })
    await before.served(first, "where")
    expect(await (await first.submit(one)).wait()).toMatchObject({ output: { a: "before" } })
    await old.close()
    await first.close()
    const fresh = beside(before)
    const umbra = await fresh.engine()
    fresh.worker({ handlers: [where("fresh")], store: storeId(fresh.store) })
    await fresh.served(umbra, "where")
    expect(await (await umbra.submit(one)).wait({ timeoutMs: 60_000 })).toMatchObject({
      status: "COMPLETED",
      output: { a: "fresh" },
    })
  })

  it("keeps two stores apart that are used side by side, whichever has higher epochs", async () => {
    const stages = [new FleetStage()]
    stages.push(beside(stages[0]!))
    for (let owners = 0; owners < 5; owners++) stages[1]!.rob()
    const umbras = await Promise.all(stages.map(stage => stage.engine()))
    for (const [at, stage] of stages.entries()) {
      stage.worker({ handlers: [where(`store ${at}`)], store: storeId(stage.store) })
      await stage.served(umbras[at]!, "where")
    }
    for (let times = 0; times < 8; times++) {
      const jobs = await Promise.all(umbras.map(umbra => umbra.submit(one)))
      const ended = await Promise.all(jobs.map(job => job.wait()))
      expect(ended.map(({ output }) => output)).toEqual([{ a: "store 0" }, { a: "store 1" }])
    }
    for (const umbra of umbras) expect(umbra.workers().map(({ state }) => state)).toEqual(["live"])
  })

  it("a worker that was given no store refuses to choose between several, and lists them", async () => {
    const stage = new FleetStage()
    const ids = [randomUUID(), randomUUID()]
    await announce(stage, ids[0]!, "postgres://db/one")
    await announce(stage, ids[1]!, "postgres://db/two")
    const { log, lines } = collectLog()
    const worker = stage.worker({ handlers: [where("here")], log })
    const error = await worker.bound.then(
      () => null,
      (found: Error) => found,
    )
    expect(error).toMatchObject({ code: "E620" })
    for (const part of [...ids.map(shortStoreId), "postgres://db/one", "postgres://db/two", "--store"])
      expect(error!.message).toContain(part)
    expect(worker.notReady).toContain("Engines of 2 stores use this Redis")
    expect(lines).toEqual([])
    // One that nobody asks says it in one line of the log.
    const silent = collectLog()
    stage.worker({ handlers: [where("here")], log: silent.log })
    await until("it is logged", () => silent.hasLogged("engines of several stores use this Redis"))
    expect(silent.lines).toHaveLength(1)
    // One that is told which works for that.
    const assigned = stage.worker({ handlers: [where("here")], store: shortStoreId(ids[1]!) })
    expect(await assigned.bound).toBe(shortStoreId(ids[1]!))
  })

  it("a worker that was given a store which no engine announces is not ready, says why, and works once one does", async () => {
    const stage = new FleetStage()
    await announce(stage, randomUUID(), "another")
    const { log, lines, hasLogged } = collectLog()
    const worker = stage.worker({ handlers: [where("here")], store: storeId(stage.store), log })
    const id = shortStoreId(storeId(stage.store))
    const problem = `no engine has announced store ${id} on this Redis yet`
    await until("it says that it waits", () => hasLogged(problem))
    expect(lines[0]!.fields.announced).toEqual([expect.stringMatching(/^[0-9a-f]{12} another$/)])
    expect([worker.isReady, worker.notReady]).toEqual([false, problem])
    const umbra = await stage.engine()
    await until("it is ready", () => worker.isReady)
    await stage.served(umbra, "where")
    expect(await (await umbra.submit(one)).wait()).toMatchObject({ output: { a: "here" } })
  })

  it("a worker that finds no store waits, says so, and works for the first that comes", async () => {
    const stage = new FleetStage()
    const { log, hasLogged } = collectLog()
    const worker = stage.worker({ handlers: [where("here")], log })
    await until("it says that it waits", () => hasLogged("no engine has announced its store"))
    const umbra = await stage.engine()
    expect(await worker.bound).toBe(await umbra.storeId())
    await stage.served(umbra, "where")
    expect(await (await umbra.submit(one)).wait()).toMatchObject({ output: { a: "here" } })
  })

  it("a worker that found its store by itself goes over when another is the only one that lives", async () => {
    const stage = new FleetStage()
    const gone = randomUUID()
    await announce(stage, gone, "dropped")
    const worker = stage.worker({ handlers: [where("here")] })
    expect(await worker.bound).toBe(shortStoreId(gone))
    const { connection } = await bareConnection(stage)
    // As after 30 s without an engine of it.
    await connection.send([
      "HDEL",
      storesKey(stage.redis.prefix!),
      announcementField(shortStoreId(gone), "e"),
    ])
    const umbra = await stage.engine()
    await stage.served(umbra, "where")
    expect(await (await umbra.submit(one)).wait()).toMatchObject({ output: { a: "here" } })
  })
})

it("a worker that changes to another store drops the epochs of the one before", async () => {
  const before = new FleetStage()
  for (let owners = 0; owners < 5; owners++) before.rob()
  const first = await before.engine()
  const worker = before.worker({ handlers: [where("here")] })
  await before.served(first, "where")
  expect(await (await first.submit(one)).wait()).toMatchObject({ output: { a: "here" } })
  await worker.bound
  await first.close()
  const fresh = beside(before)
  const umbra = await fresh.engine()
  await fresh.served(umbra, "where")
  expect(await (await umbra.submit(one)).wait({ timeoutMs: 60_000 })).toMatchObject({ output: { a: "here" } })
})

it("an engine that stops withdraws its store, unless another engine of that store runs", async () => {
  const stage = new FleetStage()
  const { connection } = await bareConnection(stage)
  const announced = async () =>
    ((await connection.send(["HKEYS", storesKey(stage.redis.prefix!)])) as string[]).length
  const engines = [await stage.engine(), await stage.engine()]
  await until("both are announced", async () => (await announced()) === 2)
  await engines[0]!.close()
  expect(await announced()).toBe(1)
  await engines[1]!.close()
  expect(await announced()).toBe(0)
  // So a worker that starts next finds the only live store.
  const other = beside(stage)
  const umbra = await other.engine()
  await until("it is announced", async () => (await announced()) === 1)
  expect(await stage.worker({ handlers: [where("here")] }).bound).toBe(await umbra.storeId())
})

describe("a worker of release 0.1", () => {
  it("is reported: in the log, and as outdated among the workers", async () => {
    const stage = new FleetStage()
    const { log, hasLogged } = collectLog()
    const umbra = await stage.engine({ log })
    const { connection, keys } = await bareConnection(stage)
    const load = { concurrency: 1, prefetch: 1, running: 0, queued: 0, at: Date.now() }
    const beat = {
      id: "worker-old",
      host: "h",
      pid: 1,
      version: "0.1.0",
      handlers: ["where"],
      held: [],
      ...load,
    }
    await connection.send(["SADD", keys.oldWorkers, beat.id])
    await connection.send(["SET", keys.oldWorker(beat.id), JSON.stringify(beat), "PX", "60000"])
    await until("it is shown", () => umbra.workers().some(({ state }) => state === "outdated"))
    expect(umbra.workers()).toMatchObject([{ id: "worker-old", version: "0.1.0", state: "outdated" }])
    expect(umbra.workerCounts).toEqual({ live: 0, dead: 0, outdated: 1 })
    expect(hasLogged("a worker of an earlier release is connected and gets no tasks")).toBe(true)
    // A job that needs it says so instead of asking for a worker that seems to be there.
    const job = await umbra.submit(one)
    const cause =
      "worker worker-old has handler where, but it is of an earlier release (0.1.0) and gets no tasks"
    const waits = async () => withLive(await umbra.graph(job.id)).nodes[0]!.waiting_on
    await until("the job waits for a worker", async () => (await waits())?.kind === "worker")
    expect(await waits()).toMatchObject({ kind: "worker", handler: "where", reason: "none", cause })
    expect((await umbra.why(job.id)).sentence).toBe(`Node a: ${cause}.`)
  })
})

it("a worker that finds only engines of release 0.1 says that these send it nothing", async () => {
  const stage = new FleetStage()
  const { connection } = await bareConnection(stage)
  const [, runId] = /run_id:(\w+)/.exec(String(await connection.send(["INFO", "server"])))!
  await connection.send(["ZADD", oldEpochsKey(stage.redis.prefix!, runId!), "1", "0"])
  for (const store of [{}, { store: storeId(stage.store) }]) {
    const { log, lines, hasLogged } = collectLog()
    const worker = stage.worker({ handlers: [where("here")], log, ...store })
    await until("it says so", () => hasLogged("engines of release 0.1 have used it"))
    expect(lines).toHaveLength(1)
    expect(worker.notReady).toContain("they send no tasks to this worker: replace them")
  }
})

describe("a task that workers refuse", () => {
  it("is counted, logged on both sides, and shown with its cause until it is taken", async () => {
    const stage = new FleetStage()
    const engineLog = collectLog()
    const workerLog = collectLog()
    const umbra = await stage.engine({ log: engineLog.log })
    const worker = stage.worker({ handlers: [where("here")], log: workerLog.log })
    await stage.served(umbra, "where")
    const { connection, keys } = await bareConnection(stage)
    // As if another engine owned everything, and this one did not know.
    const epochs = Array.from({ length: 64 }, (_, partition) => [partition, 1000] as const)
    await connection.send(["PUBLISH", keys.control, JSON.stringify({ type: "epochs", epochs })])
    const job = await umbra.submit(one)
    const waits = async () => withLive(await umbra.graph(job.id)).nodes[0]!.waiting_on
    await until("it is shown", async () => ((await waits()) as { reason?: string }).reason === "refused")
    const cause = `epoch 1 of partition ${jobPartition(job.id)} has ended: its owner has epoch 1000`
    await until(
      "it is shown with its cause",
      async () => ((await waits()) as { cause?: string }).cause === cause,
    )
    await until("it was refused again", () => umbra.health().refused > 1)
    expect(worker.refused).toBeGreaterThan(0)
    expect(workerLog.hasLogged("this worker refused a task")).toBe(true)
    await until("the engine says so", () => engineLog.hasLogged("a worker refused a task"))
    stage.worker({ handlers: [where("another")] })
    await worker.close()
    expect(await job.wait({ timeoutMs: 60_000 })).toMatchObject({ output: { a: "another" } })
  })
})
