/** Drivers of the reasons that faults, take-overs, other processes and pipelines cause. */
import { expect, onTestFinished, vi } from "vitest"
import { LocalBroker } from "../../src/broker/local.ts"
import type { ReasonKind } from "../../src/jobs/why/reasons.ts"
import { JournalUnavailableError } from "../../src/journal/errors.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Umbra } from "../../src/umbra.ts"
import { bareConnection, FleetStage } from "../broker/stage.ts"
import { adapter, numbers, route } from "../pipeline/scene.ts"
import { setOwner } from "../support/store-tables.ts"
import { holding } from "./held-answers.ts"
import { flow, gate, handler, open, openOn, until } from "./stage.ts"
import { kindOf, leaves } from "./why-stage.ts"

const noop = handler("noop", () => "done")
const single = flow([{ id: "a", handler: "gate" }])

export const faultDrivers: { readonly [kind in ReasonKind]?: () => Promise<void> } = {
  async dispatching() {
    const clock = new VirtualClock()
    const journal = openMemory()
    const append = journal.append.bind(journal)
    let mayAppend: Promise<void> = Promise.resolve()
    journal.append = given => mayAppend.then(() => append(given))
    const work = gate()
    const umbra = await open({ at: journal, handlers: [work.handler], clock })
    const job = await umbra.submit(single)
    await work.came()
    let release = () => {}
    mayAppend = new Promise(resolve => {
      release = resolve
    })
    onTestFinished(release)
    // Its result is on its way to the store.
    work.open()
    await leaves({ umbra, clock }, { jobId: job.id, node: "a", kind: "dispatching" }, () => release())
    expect((await job.wait()).status).toBe("COMPLETED")
  },

  async store_away() {
    const clock = new VirtualClock()
    // Heartbeats show that the database is back, as on PostgreSQL.
    const journal = openMemory(createMemoryStore())
    const append = journal.append.bind(journal)
    let isAway = false
    journal.append = async given => {
      if (isAway) throw new JournalUnavailableError("the database does not answer")
      return append(given)
    }
    const [work, other] = [gate(), gate("other")]
    const engine = { beatSeconds: 0.5, leaseSeconds: 10 }
    const umbra = await open({ at: journal, handlers: [work.handler, other.handler], clock, engine })
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "gate" },
        { id: "b", handler: "other" },
        { id: "c", handler: "wait_for_signal", config: { signal: "go" } },
      ]),
    )
    await until("c waits", async () => (await kindOf(umbra, job.id, "c")) === "signal")
    await work.came()
    await other.came()
    isAway = true
    onTestFinished(() => {
      isAway = false
    })
    work.open()
    await leaves({ umbra, clock }, { jobId: job.id, node: "a", kind: "store_away" }, async () => {
      // Not true for a handler that runs; nothing else of the job goes on.
      expect(await kindOf(umbra, job.id, "b")).toBe("running")
      expect(await kindOf(umbra, job.id, "c")).toBe("store_away")
      // Many tries later, so that the next one would be half a minute away.
      for (let minute = 0; minute < 5; minute++) {
        clock.advance(60_000)
        await new Promise(resolve => setImmediate(resolve))
      }
      isAway = false
    })
    await until("c has left it", async () => (await kindOf(umbra, job.id, "c")) === "signal")
    other.open()
    await umbra.signal(job.id, "go")
    expect((await job.wait()).status).toBe("COMPLETED")
  },

  async owner_away() {
    const store = createMemoryStore()
    const first = await openOn(store, { handlers: [gate().handler], engine: { drainSeconds: 0 } })
    const job = await first.submit(single)
    await first.close()
    const reader = await openOn(store, { roles: ["api"] })
    await leaves({ umbra: reader }, { jobId: job.id, node: "a", kind: "owner_away" }, () =>
      openOn(store, { handlers: [noop] }),
    )
  },

  async starting() {
    const store = createMemoryStore()
    const begun = gate()
    const first = await openOn(store, { handlers: [begun.handler], engine: { drainSeconds: 0 } })
    const job = await first.submit(single)
    await begun.came()
    await first.close()
    const journal = openMemory(store)
    const due = holding(journal, "dueJobs")
    due.hold()
    // Does not resolve before its jobs are loaded.
    const opening = open({
      at: journal,
      handlers: [gate().handler],
      engine: { beatSeconds: 0.02, leaseSeconds: 2 },
    })
    const reader = await openOn(store, { roles: ["api"] })
    await until("it has taken the partitions", () => due.held.length > 0)
    await leaves({ umbra: reader }, { jobId: job.id, node: "a", kind: "starting" }, async () => {
      due.letGo()
      await opening
    })
    await moving()
  },

  async quarantined() {
    const clock = new VirtualClock()
    const work = gate()
    const umbra = await open({ handlers: [work.handler, noop], clock })
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "gate" },
        { id: "b", handler: "noop", dependencies: ["a"] },
        { id: "c", handler: "sleep", config: { seconds: 1000 } },
      ]),
    )
    await work.came()
    await until("c waits", async () => (await kindOf(umbra, job.id, "c")) === "timer")
    const bug = vi.spyOn(LocalBroker.prototype, "dispatch").mockImplementationOnce(() => {
      throw new RangeError("a bug")
    })
    work.open()
    await leaves({ umbra, clock }, { jobId: job.id, node: "b", kind: "quarantined" }, async () => {
      bug.mockRestore()
      const { sentence, action } = await umbra.why(job.id)
      expect(sentence).toContain("RangeError: a bug")
      expect(action).toContain("send the job a command")
      // Its timer does not fire either.
      expect(await kindOf(umbra, job.id, "c")).toBe("quarantined")
      await umbra.signal(job.id, "anything")
    })
    await until("b has run", async () => (await kindOf(umbra, job.id, "b")) === null)
    expect(await kindOf(umbra, job.id, "c")).toBe("timer")
  },

  async worker_isolated() {
    const store = createMemoryStore()
    const lost = gate()
    const first = await openOn(store, { handlers: [lost.handler] })
    const nodes = ["a", "b"].map(id => ({ id, handler: "gate" }))
    const job = await first.submit(flow(nodes))
    await until("both are known to run", async () => {
      const events = await first.events(job.id)
      return events.filter(({ type }) => type === "node.running").length === 2
    })
    await robbed(store, first)
    const work = gate()
    const second = await openOn(store, { handlers: [work.handler] })
    await work.came()
    const [running] = work.entered
    const node = running!.nodeId === "a" ? "b" : "a"
    await leaves({ umbra: second }, { jobId: job.id, node, kind: "worker_isolated" }, () => work.open())
    expect((await second.wait(job.id)).status).toBe("COMPLETED")
  },

  async worker_refused() {
    const stage = new FleetStage()
    const umbra = await stage.engine()
    const worker = stage.worker({ handlers: [noop] })
    await stage.served(umbra, "noop")
    const { connection, keys } = await bareConnection(stage)
    // As if another engine owned everything, and this one did not know.
    const epochs = Array.from({ length: 64 }, (_, partition) => [partition, 1000] as const)
    await connection.send(["PUBLISH", keys.control, JSON.stringify({ type: "epochs", epochs })])
    const job = await umbra.submit(flow([{ id: "a", handler: "noop" }]))
    await leaves({ umbra }, { jobId: job.id, node: "a", kind: "worker_refused" }, async () => {
      expect((await umbra.why(job.id)).sentence).toContain("its owner has epoch 1000")
      stage.worker({ handlers: [noop] })
      await worker.close()
    })
    expect((await job.wait()).status).toBe("COMPLETED")
  },

  async executions() {
    const clock = new VirtualClock()
    const held = heldAdapter()
    const umbra = await open({ adapters: [held.adapter], pipeline: { maxExecutions: 1 }, clock })
    await umbra.register({ name: "child", routes: [route("only", ["held"])] } as never)
    const busy = await umbra.submit("child")
    await until("a pipeline has the place", () => held.count() === 1)
    const job = await umbra.submit(
      flow([{ id: "load", handler: "pipeline", config: { pipeline: "child" } }], { name: "parent" }),
    )
    await leaves({ umbra, clock }, { jobId: job.id, node: "load", kind: "executions" }, async () => {
      held.pass()
      await busy.wait()
    })
    await until("it has ended", async () => {
      clock.advance(100)
      return (await umbra.job(job.id)).status === "COMPLETED"
    })
  },

  async breaker() {
    const clock = new VirtualClock()
    let isBroken = true
    const calls = adapter("calls", () => {
      if (isBroken) throw new Error("not reachable")
    })
    const umbra = await open({ adapters: [numbers, calls], clock })
    const job = await umbra.submit({
      name: "broken",
      init: { body: { count: 100 } },
      routes: [
        route("source", ["numbers"], { outbound: "call" }),
        route("call", ["calls"], {
          concurrency: 2,
          error_handling: {
            retries: 100,
            circuit_breaker: {
              failure_rate: 0.5,
              min_calls: 4,
              window_seconds: 30,
              open_seconds: 15,
              trial_calls: 1,
            },
          },
        }),
      ],
    } as never)
    const of = { jobId: job.id, node: "pipeline", route: "call", kind: "breaker" } as const
    await leaves({ umbra, clock }, of, async () => {
      const { sentence, action } = await umbra.why(job.id)
      expect(sentence).toContain("the circuit breaker of adapter calls is open")
      expect(action).toContain("adapter calls")
      isBroken = false
      clock.advance(15_000)
    })
    await completed(umbra, clock, job.id)
  },

  async backpressure() {
    const clock = new VirtualClock()
    const held = heldAdapter()
    const umbra = await open({ adapters: [numbers, held.adapter], clock })
    const job = await umbra.submit({
      name: "full",
      init: { body: { count: 40, step: 4 } },
      routes: [
        route("source", ["numbers"], { outbound: "slow", concurrency: 1 }),
        // All that count against the limit are in flight.
        route("slow", ["held"], {
          concurrency: 8,
          prefetch: 8,
          backpressure: { adaptive: false, max_queued: 4 },
        }),
      ],
    } as never)
    await until("the second route is full", () => held.count() === 4)
    const of = { jobId: job.id, node: "pipeline", route: "source", kind: "backpressure" } as const
    await leaves({ umbra, clock }, of, async () => {
      const { sentence, action } = await umbra.why(job.id)
      expect(sentence).toContain("route slow behind it has too many queued messages")
      expect(action).toContain("max_queued")
      held.pass()
    })
    await completed(umbra, clock, job.id)
  },
}

/** The other case of `starting`: the process stops, and another one takes its jobs over. */
async function moving(): Promise<void> {
  const store = createMemoryStore()
  const [first, last] = [gate("first"), gate("last")]
  const handlers = [first.handler, last.handler, noop]
  const leaving = await openOn(store, { handlers })
  const job = await leaving.submit(
    flow([
      { id: "a", handler: "first" },
      { id: "b", handler: "noop", dependencies: ["a"] },
      { id: "c", handler: "last" },
    ]),
  )
  await first.came()
  await last.came()
  const closed = leaving.close()
  first.open()
  let next: Umbra = leaving
  const of = { jobId: job.id, node: "b", kind: "starting" } as const
  await leaves(
    { umbra: leaving },
    of,
    async () => {
      last.open()
      await closed
      next = await openOn(store, { handlers })
    },
    () => next,
  )
  expect((await next.wait(job.id)).status).toBe("COMPLETED")
}

/** As if the process had died: others have its partitions, and it does not know. */
async function robbed(store: ReturnType<typeof createMemoryStore>, umbra: Umbra): Promise<void> {
  const taken = openMemory(store)
  const rows = await taken.readPartitions()
  await taken.takePartitions({ engine: "thief", expected: rows })
  setOwner(store, null)
  await umbra.close()
}

/** Holds its messages until they may pass. */
function heldAdapter() {
  const held: (() => void)[] = []
  let isOpen = false
  return {
    count: () => held.length,
    pass(): void {
      isOpen = true
      for (const resolve of held) resolve()
    },
    adapter: adapter("held", () =>
      isOpen ? undefined : new Promise<void>(resolve => void held.push(resolve)),
    ),
  }
}

async function completed(umbra: Umbra, clock: VirtualClock, jobId: string): Promise<void> {
  await until("it has ended", async () => {
    clock.advance(1000)
    return (await umbra.job(jobId)).status === "COMPLETED"
  })
}
