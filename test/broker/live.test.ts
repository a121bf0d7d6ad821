/** What graphs show of nodes that workers elsewhere run: RUNNING is what runs, and all else says why it does not. */
import { describe, expect, it, onTestFinished } from "vitest"
import { type LiveNode, withLive } from "../../src/core/view/live-view.ts"
import type { GraphView, WorkerWait } from "../../src/core/view/view.ts"
import { Reader } from "../../src/jobs/reader.ts"
import { openMemory } from "../../src/journal/sqlite/memory.ts"
import type { Umbra } from "../../src/umbra.ts"
import { flow, gate, handler, open, until } from "../engine/stage.ts"
import { bareConnection, FleetStage } from "./stage.ts"
import { Stalls } from "./stalls.ts"

const six = flow(Array.from({ length: 6 }, (_, n) => ({ id: `n${n}`, handler: "gate" })))

function running({ nodes }: GraphView): string[] {
  return nodes.filter(({ status }) => status === "RUNNING").map(({ id }) => id)
}

async function shown(umbra: Umbra, jobId: string): Promise<GraphView> {
  return withLive(await umbra.graph(jobId))
}

function waitOf({ nodes }: GraphView, id: string): WorkerWait {
  return nodes.find(node => node.id === id)!.waiting_on as WorkerWait
}

/** An owner of all jobs, and a process without an engine that asks it. */
async function ownerAndApi(stage: FleetStage): Promise<[Umbra, Umbra]> {
  return [await stage.engine(), await stage.engine({ roles: ["api"] })]
}

describe("the live overlay in a fleet", () => {
  it("of six nodes with one worker exactly one is RUNNING, and the others say where they stand", async () => {
    const stage = new FleetStage()
    const [owner, api] = await ownerAndApi(stage)
    const busy = gate()
    const worker = stage.worker({ handlers: [busy.handler], worker: { concurrency: 1 } })
    await stage.served(owner, "gate")
    const job = await owner.submit(six)
    await busy.came()
    for (const umbra of [owner, api]) {
      await until("one is shown", async () => {
        const graph = await shown(umbra, job.id)
        expect(running(graph).length).toBeLessThanOrEqual(1)
        return running(graph).length === 1
      })
      const graph = await shown(umbra, job.id)
      const [one] = running(graph)
      expect(graph.nodes.find(({ id }) => id === one)).toMatchObject({ worker: worker.id, waiting_on: null })
      const others = graph.nodes.filter(({ id }) => id !== one)
      expect(others.map(({ status }) => status)).toEqual(Array(5).fill("QUEUED"))
      for (const { waiting_on } of others)
        expect(waiting_on).toMatchObject({ kind: "worker", handler: "gate", reason: "busy", queued: 5 })
      const positions = others.map(({ waiting_on }) => (waiting_on as WorkerWait).position)
      expect(positions.sort()).toEqual([1, 2, 3, 4, 5])
      expect(graph.workflow_status).toBe("RUNNING")
    }
    // By the facts alone nothing has started within its first second; the overlay is beside them.
    const { nodes, live } = await api.graph(job.id)
    expect(nodes.every(({ status, progress }) => status !== "WAITING" && progress === null)).toBe(true)
    expect(live!.nodes.map(({ id }) => id).sort()).toEqual(["n0", "n1", "n2", "n3", "n4", "n5"])
    busy.open()
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(await api.graph(job.id)).not.toHaveProperty("live")
  })

  it("with all workers gone nothing is RUNNING, and what waits names the last worker", async () => {
    const stage = new FleetStage()
    const [owner, api] = await ownerAndApi(stage)
    const held = gate()
    // As one that was killed: it never beats again.
    const redis = { workerBeatSeconds: 3600, workerDeadSeconds: 2 }
    const dying = stage.worker({ handlers: [held.handler], worker: { concurrency: 1 }, redis })
    await stage.served(owner, "gate")
    const before = Date.now()
    const job = await owner.submit(six)
    await held.came()
    await until("it runs", async () => running(await shown(api, job.id)).length === 1)
    await until("it is dead", () => owner.workers().every(({ state }) => state === "dead"))
    await until("its task is lost", async () => running(await shown(owner, job.id)).length === 0)
    for (const umbra of [owner, api]) {
      const graph = await shown(umbra, job.id)
      expect(running(graph)).toEqual([])
      expect(graph.workflow_status).toBe("READY_TO_RESUME")
      for (const { id } of graph.nodes) {
        const wait = waitOf(graph, id)
        expect(wait).toMatchObject({ handler: "gate", reason: "none", last_worker: dying.id })
        expect(Math.abs(wait.last_seen_at! - before)).toBeLessThan(60_000)
      }
    }
    held.open()
    stage.worker({ handlers: [held.handler] })
    expect((await job.wait()).status).toBe("COMPLETED")
  })

  it("a recorded start is RUNNING without its engine while a worker has it, and not once both are dead", async () => {
    const stage = new FleetStage()
    const journal = openMemory(stage.store)
    const beat = journal.beat.bind(journal)
    const killed = gate()
    let isKilled = false
    journal.beat = async row => {
      if (isKilled) await killed.left
      return beat(row)
    }
    const settings = { beatSeconds: 0.02, leaseSeconds: 1 }
    const { url: redisUrl, redis } = stage
    const owner = await open({ at: journal, roles: ["engine"], redisUrl, redis, engine: settings })
    onTestFinished(() => killed.open())
    const api = await stage.engine({ roles: ["api"], engine: settings })
    const held = gate()
    const worker = stage.worker({ handlers: [held.handler] })
    for (const umbra of [owner, api]) await stage.served(umbra, "gate")
    const job = await owner.submit(flow([{ id: "a", handler: "gate" }]))
    await held.came()
    await until(
      "its start is recorded",
      async () => (await owner.graph(job.id)).nodes[0]!.status === "RUNNING",
    )
    isKilled = true
    // The owner is not asked any more, so that only an answer without it can say RUNNING.
    stage.store.feedListeners.clear()
    await until("its owner is away, and a worker has it", async () => {
      const { live } = await api.graph(job.id)
      return live?.nodes[0]?.status === "RUNNING" && live.nodes[0].worker === worker.id
    })
    await worker.close({ drainSeconds: 0 })
    await until("no worker has it", async () => running(await shown(api, job.id)).length === 0)
    const graph = await shown(api, job.id)
    expect(graph.workflow_status).toBe("READY_TO_RESUME")
    const wait = waitOf(graph, "a")
    expect(wait).toMatchObject({ kind: "worker", handler: "gate", reason: "owner_away" })
    expect(wait.cause).toMatch(/engine-.* has stopped reporting/)
    expect(wait.last_seen_at).toBeGreaterThan(0)
    // Whoever opens the store later judges by the time of the last beat.
    stage.store.connection.run("update engines set beat = beat - 60000")
    expect(await new Reader(openMemory(stage.store)).graph(job.id)).toMatchObject({
      live: { nodes: [{ id: "a", status: "QUEUED", waiting_on: { reason: "owner_away" } }] },
    })
  })

  it("an owner that takes over learns which handlers run", async () => {
    const stage = new FleetStage()
    const first = await stage.engine()
    const busy = gate()
    const worker = stage.worker({ handlers: [busy.handler], worker: { concurrency: 1 } })
    await stage.served(first, "gate")
    const job = await first.submit(six)
    await busy.came()
    await until("it is shown", async () => running(await shown(first, job.id)).length === 1)
    const [one] = running(await shown(first, job.id))
    await first.close()
    const second = await stage.engine()
    await until("the next owner shows it", async () => running(await shown(second, job.id)).length === 1)
    const graph = await shown(second, job.id)
    expect(running(graph)).toEqual([one])
    expect(graph.nodes.find(({ id }) => id === one)!.worker).toBe(worker.id)
    busy.open()
    expect((await second.wait(job.id)).status).toBe("COMPLETED")
  })

  it("a handler whose start is recorded stays RUNNING while its job goes to another engine", async () => {
    const stage = new FleetStage(undefined, {
      rosterSeconds: 0.05,
      workerBeatSeconds: 0.5,
      workerDeadSeconds: 60,
    })
    const first = await stage.engine()
    const busy = gate()
    stage.worker({ handlers: [busy.handler] })
    await stage.served(first, "gate")
    const job = await first.submit(flow([{ id: "a", handler: "gate" }]))
    await busy.came()
    await until(
      "its start is recorded",
      async () => (await first.graph(job.id)).nodes[0]!.status === "RUNNING",
    )
    await first.close()
    const second = await stage.engine()
    let isTold = false
    const seen = new Set<string>()
    await until("the worker has told the next owner", async () => {
      const { live } = await second.graph(job.id)
      for (const { status } of live?.nodes ?? []) seen.add(status)
      isTold ||= second.activity(job.id).running.length === 1
      return isTold && live !== null
    })
    expect([...seen]).toEqual(["RUNNING"])
    busy.open()
    expect((await second.wait(job.id)).status).toBe("COMPLETED")
  })

  it("items that run are RUNNING on their page, and their node is as they are", async () => {
    const stage = new FleetStage()
    const [owner, api] = await ownerAndApi(stage)
    const busy = gate()
    stage.worker({ handlers: [busy.handler], worker: { concurrency: 1 } })
    await stage.served(owner, "gate")
    const job = await owner.submit(flow([{ id: "each", handler: "gate", for_each: [1, 2, 3] }]))
    await busy.came()
    const live = async () => (await api.items(job.id, "each")).live?.items.map(({ status }) => status)
    await until("one is shown", async () => (await live())?.includes("RUNNING"))
    expect((await live())!.sort()).toEqual(["QUEUED", "QUEUED", "RUNNING"])
    const [node] = (await shown(api, job.id)).nodes
    expect(node).toMatchObject({ status: "RUNNING", items: { total: 3, queued: 2, running: 1 } })
    const own = await api.node(job.id, "each")
    expect(own).toMatchObject({ status: "QUEUED", live: { nodes: [{ id: "each", status: "RUNNING" }] } })
    busy.open()
    expect((await job.wait()).status).toBe("COMPLETED")
  })

  it("costs one message for all that began, and none for what is over within a turn", async () => {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const { connection, keys } = await bareConnection(stage)
    const messages: string[] = []
    const { connection: subscriber } = await bareConnection(stage)
    await subscriber.subscribe(keys.news, message => messages.push(message))
    const held = gate()
    const quick = handler("quick", () => 1)
    stage.worker({ handlers: [held.handler, quick], worker: { concurrency: 50 } })
    await stage.served(umbra, "gate")
    const many = flow(Array.from({ length: 50 }, (_, n) => ({ id: `n${n}`, handler: "gate" })))
    const job = await umbra.submit(many)
    await held.came(50)
    await until("all are shown", async () => running(await shown(umbra, job.id)).length === 50)
    const begun = messages.map(text => JSON.parse(text)).filter(({ type }) => type === "begun")
    expect(begun.flatMap(({ tasks }) => tasks)).toHaveLength(50)
    // All 50 begin within a turn or two of the worker, however slow the machine.
    expect(begun.length).toBeLessThan(10)
    held.open()
    await job.wait()
    await connection.send(["PING"])
  })
})

describe("what is shown against what an outside witness saw", () => {
  it("RUNNING is never shown before a handler began or 500 ms after it ended, and always once it has run for a second", async () => {
    const stage = new FleetStage()
    const [owner, api] = await ownerAndApi(stage)
    const other = await stage.engine()
    const redis = (await bareConnection(stage)).connection
    const stalls = new Stalls(() => redis.send(["PING"]))
    const seen = new Map<string, { begun: number; ended: number }>()
    const work = handler("work", async (config: { ms: number }, ctx) => {
      const witness = { begun: performance.now(), ended: Number.POSITIVE_INFINITY }
      seen.set(`${ctx.jobId} ${ctx.nodeId}`, witness)
      await new Promise(resolve => setTimeout(resolve, config.ms))
      witness.ended = performance.now()
      return config.ms
    })
    for (const concurrency of [1, 3]) stage.worker({ handlers: [work], worker: { concurrency } })
    for (const umbra of [owner, other, api]) await stage.served(umbra, "work")
    const durations = [1, 40, 1700, 300, 1500, 5, 700, 2000, 120]
    const nodes = durations.map((ms, n) => ({
      id: `n${n}`,
      handler: "work",
      config: { ms },
      dependencies: n < 3 ? [] : [`n${n - 3}`],
    }))
    const jobs = await Promise.all([owner, other, api].map(umbra => umbra.submit(flow(nodes))))
    let isOver = false
    const violations: string[] = []
    const missed: string[] = []
    const look = async (umbra: Umbra) => {
      while (!isOver)
        for (const { id } of jobs) {
          const asked = performance.now()
          const graph = await umbra.graph(id)
          const answered = performance.now()
          const live = new Map<string, LiveNode>((graph.live?.nodes ?? []).map(node => [node.id, node]))
          for (const node of graph.nodes) {
            const witness = seen.get(`${id} ${node.id}`)
            const isShown = node.status === "RUNNING" || live.get(node.id)?.status === "RUNNING"
            const where = `${id} ${node.id} at ${asked} ${JSON.stringify([witness, node.status, live.get(node.id)])}`
            if (isShown && (witness === undefined || witness.begun > answered))
              violations.push(`early: ${where}`)
            if (
              isShown &&
              witness !== undefined &&
              witness.ended < asked - 500 - stalls.between(witness.ended, answered)
            )
              violations.push(`late: ${where}`)
            if (witness === undefined || isShown || graph.live === null) continue
            const lag = 1000 + stalls.between(witness.begun, answered)
            if (asked > witness.begun + lag && witness.ended > answered) missed.push(where)
          }
          await new Promise(resolve => setTimeout(resolve, 10))
        }
    }
    const looks = [owner, other, api].map(look)
    for (const job of jobs) expect((await job.wait()).status).toBe("COMPLETED")
    isOver = true
    await Promise.all(looks)
    stalls.stop()
    expect(violations).toEqual([])
    expect(missed).toEqual([])
  })
})
