/** P1: `max_executions` holds for retries too, and a node that runs a pipeline waits for a place. */
import { describe, expect, it } from "vitest"
import { systemClock } from "../../src/engine/clock.ts"
import { UmbraError } from "../../src/errors.ts"
import type { WorkflowSource } from "../../src/jobs/register.ts"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { silentLog } from "../../src/log.ts"
import { waitForRoom } from "../../src/pipeline/execution/wait-for-room.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Umbra } from "../../src/umbra.ts"
import { openOn, until } from "../engine/stage.ts"
import { adapter, recorder, route } from "./scene.ts"

/** An adapter that fails, or stays until it is let go; counts how many are in it at once. */
function gate() {
  const inside: (() => void)[] = []
  const state = { mode: "fail" as "fail" | "stay" | "pass", most: 0 }
  return {
    state,
    inside,
    letGo(): void {
      for (const leave of inside.splice(0)) leave()
    },
    adapter: adapter("gate", (_, { signal }) => {
      if (state.mode === "fail") throw Object.assign(new Error("as told"), { retryable: false })
      if (state.mode === "pass") return undefined
      return new Promise<void>((resolve, reject) => {
        inside.push(resolve)
        state.most = Math.max(state.most, inside.length)
        signal.addEventListener("abort", () => reject(new Error("stopped")))
      })
    }),
  }
}

const failing = {
  name: "failing",
  routes: [
    route("only", ["gate"], { error_handling: { retries: 0, dead_letter: false, circuit_breaker: false } }),
  ],
} as WorkflowSource

const parent = {
  name: "parent",
  nodes: [{ id: "load", handler: "pipeline", config: { pipeline: "child" }, retry: { max_attempts: 1 } }],
} as WorkflowSource
const child = { name: "child", routes: [route("only", ["record"])] }

const shown = async (umbra: Umbra, jobId: string) => (await umbra.graph(jobId)).nodes[0]!

describe("E702 a retry beyond max_executions", () => {
  it("is refused like a submission, in whichever process it is requested, and accepted when a place is free", async () => {
    const store = createMemoryStore()
    const { adapter: own, state, inside, letGo } = gate()
    const options = { adapters: [own], pipeline: { maxExecutions: 2 } }
    const engines = [await openOn(store, options), await openOn(store, options)]
    const jobs: string[] = []
    for (let i = 0; i < 4; i++) {
      const job = await engines[i % 2]!.submit(failing)
      expect((await job.wait()).status).toBe("FAILED")
      jobs.push(job.id)
    }
    state.mode = "stay"
    const answers = await Promise.allSettled(jobs.map((id, i) => engines[(i + 1) % 2]!.retry(id)))
    const refused = answers.flatMap(answer => (answer.status === "rejected" ? [answer.reason.code] : []))
    expect(refused).toEqual(["E702", "E702"])
    await until("two run", () => inside.length === 2)
    // One that was refused is as it was.
    const [left] = jobs.filter((_, i) => answers[i]!.status === "rejected")
    expect((await engines[0]!.job(left!)).status).toBe("FAILED")
    await expect(engines[0]!.retry(left!)).rejects.toMatchObject({ code: "E702" })
    await expect(engines[1]!.retry(left!)).rejects.toMatchObject({ code: "E702" })
    state.mode = "pass"
    letGo()
    for (const [i, id] of jobs.entries()) if (answers[i]!.status === "fulfilled") await engines[0]!.wait(id)
    for (const [i, id] of jobs.entries()) {
      if (answers[i]!.status === "fulfilled") continue
      await engines[0]!.retry(id)
      expect((await engines[0]!.wait(id)).status).toBe("COMPLETED")
    }
    expect(state.most).toBe(2)
  })

  it("waits in a bulk operation, which refuses nothing; an abort lists what waited", async () => {
    const { adapter: own, state, inside, letGo } = gate()
    const umbra = await openOn(createMemoryStore(), { adapters: [own], pipeline: { maxExecutions: 2 } })
    for (let i = 0; i < 6; i++) expect((await (await umbra.submit(failing)).wait()).status).toBe("FAILED")
    state.mode = "stay"
    const request = { verb: "retry", filter: { workflow: "failing" }, rate: 1000 } as const
    const first = await umbra.bulk.start(request)
    await until("two run", () => inside.length === 2)
    await umbra.bulk.abort(first.bulk_id)
    expect((await umbra.wait(first.bulk_id)).status).toBe("CANCELLED")
    const { refused } = await umbra.bulk.refusals(first.bulk_id)
    for (const { code } of refused) expect(code).toBe("E702")
    expect(inside).toHaveLength(2)
    const second = await umbra.bulk.start(request)
    expect((await umbra.jobs({ workflow: "failing", statuses: ["FAILED"] })).length).toBe(4)
    expect((await umbra.job(second.bulk_id)).status).not.toBe("COMPLETED")
    state.mode = "pass"
    letGo()
    expect(await umbra.wait(second.bulk_id)).toMatchObject({
      status: "COMPLETED",
      output: { processed: 4, done: 4, refused: 0 },
    })
    for (const { job_id } of await umbra.jobs({ workflow: "failing" }))
      expect((await umbra.wait(job_id)).status).toBe("COMPLETED")
    expect(state.most).toBe(2)
  })

  it("a retry that is refused for another reason takes no place", async () => {
    const { adapter: own, state } = gate()
    state.mode = "pass"
    const umbra = await openOn(createMemoryStore(), { adapters: [own], pipeline: { maxExecutions: 1 } })
    const done = await umbra.submit(failing)
    expect((await done.wait()).status).toBe("COMPLETED")
    await expect(umbra.retry(done.id)).rejects.toMatchObject({ code: "E307" })
    expect((await (await umbra.submit(failing)).wait()).status).toBe("COMPLETED")
  })
})

describe("a node with handler pipeline at max_executions", () => {
  it("waits without spending a try, says why in every process, and continues when an execution ends elsewhere", async () => {
    const store = createMemoryStore()
    const { adapter: own, state, inside, letGo } = gate()
    const seen = recorder()
    state.mode = "stay"
    const options = { adapters: [own, seen], pipeline: { maxExecutions: 1 } }
    const engines = [await openOn(store, options), await openOn(store, options)]
    await engines[0]!.register(child as never)
    const busy = await engines[0]!.submit(failing)
    await until("a pipeline holds the place", () => inside.length === 1)
    // Of several, some are owned by the other process than that of the execution.
    const jobs = await Promise.all(Array.from({ length: 6 }, (_, i) => engines[i % 2]!.submit(parent)))
    for (const { id } of jobs)
      for (const umbra of engines)
        await until("it waits for a place", async () => {
          const { waiting_on, attempt, status } = await shown(umbra, id)
          if (waiting_on?.kind !== "executions") return false
          expect({ waiting_on, attempt, status }).toEqual({
            waiting_on: { kind: "executions", pipeline: "child", limit: 1 },
            attempt: 1,
            status: "QUEUED",
          })
          return true
        })
    expect((await engines[0]!.graph(jobs[0]!.id)).workflow_status).toBe("WAITING_SINGLE")
    letGo()
    await busy.wait()
    for (const job of jobs) expect((await job.wait()).status).toBe("COMPLETED")
    expect(seen.seen).toHaveLength(6)
  })

  it("continues after a restart of the process", async () => {
    const store = createMemoryStore()
    const { adapter: own, state, inside, letGo } = gate()
    const seen = recorder()
    state.mode = "stay"
    const options = { adapters: [own, seen], pipeline: { maxExecutions: 1 }, engine: { drainSeconds: 0 } }
    const before = await openOn(store, options)
    await before.register(child as never)
    const busy = await before.submit(failing)
    await until("a pipeline holds the place", () => inside.length === 1)
    const job = await before.submit(parent)
    await until("it waits", async () => (await shown(before, job.id)).waiting_on?.kind === "executions")
    await before.close()
    inside.splice(0)
    // Past the time at which the node is dispatched again in any case.
    const clock = { ...systemClock, now: () => Date.now() + 60_000 }
    const after = await openOn(store, { ...options, clock })
    await until("the execution goes on", () => inside.length === 1)
    await until("the node waits again", async () => {
      const events = await after.events(job.id)
      return events.filter(({ payload }) => payload.reason === "executions").length === 2
    })
    expect(await shown(after, job.id)).toMatchObject({
      waiting_on: { kind: "executions" },
      attempt: 1,
      error: null,
    })
    const received = (await after.events(job.id)).findLast(({ type }) => type === "node.queued")
    expect(received?.payload).toMatchObject({ reason: "executions", pipeline: "child", limit: 1 })
    expect(received?.payload).not.toHaveProperty("fault")
    // However often it asks for a place, it is one attempt that waits.
    expect((await after.node(job.id, "load")).attempts).toMatchObject([
      { attempt: 1, outcome: null, error: null, waits: [{ kind: "executions", until: null }] },
    ])
    letGo()
    expect((await after.wait(busy.id)).status).toBe("COMPLETED")
    expect((await after.wait(job.id)).status).toBe("COMPLETED")
    const { attempts } = await after.node(job.id, "load")
    expect(attempts).toMatchObject([
      { outcome: "completed", waits: [{ kind: "executions" }, { kind: "child" }] },
    ])
    const [place, run] = attempts[0]!.waits
    expect(place!.until).toBeLessThanOrEqual(run!.from)
    // The wait for a place is part of the time in which it was queued, on the node and in its history.
    const { queued_ms, queued_at, started_at } = await after.node(job.id, "load")
    expect(queued_ms).toBe(started_at! - queued_at!)
    expect(queued_ms).toBeGreaterThanOrEqual(60_000)
    expect(attempts[0]).toMatchObject({ queued_ms, queued_at, started_at })
    expect(seen.seen).toHaveLength(1)
  })

  it("one that is cancelled while it waits leaves the place to the next", async () => {
    const { adapter: own, state, inside, letGo } = gate()
    const seen = recorder()
    state.mode = "stay"
    const options = { adapters: [own, seen], pipeline: { maxExecutions: 1 } }
    const umbra = await openOn(createMemoryStore(), options)
    await umbra.register(child as never)
    await umbra.submit(failing)
    await until("a pipeline holds the place", () => inside.length === 1)
    const [first, second] = [await umbra.submit(parent), await umbra.submit(parent)]
    for (const { id } of [first, second])
      await until("it waits", async () => (await shown(umbra, id)).waiting_on?.kind === "executions")
    await umbra.cancel(first.id)
    letGo()
    expect((await second.wait()).status).toBe("COMPLETED")
    expect(await umbra.job(first.id)).toMatchObject({ status: "CANCELLED" })
  })

  it("a retry of the parent waits for a place for its child too", async () => {
    const { adapter: own, state, inside, letGo } = gate()
    const umbra = await openOn(createMemoryStore(), { adapters: [own], pipeline: { maxExecutions: 1 } })
    await umbra.register({ ...(failing as object), name: "child" } as never)
    const job = await umbra.submit(parent)
    expect((await job.wait()).status).toBe("FAILED")
    state.mode = "stay"
    await umbra.submit(failing)
    await until("a pipeline holds the place", () => inside.length === 1)
    await umbra.retry(job.id)
    await until("it waits", async () => (await shown(umbra, job.id)).waiting_on?.kind === "executions")
    expect(state.most).toBe(1)
    state.mode = "pass"
    letGo()
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(await umbra.jobs({ parentId: job.id })).toHaveLength(1)
  })

  it.each(["retry", "fork"] as const)("a bulk %s of parents waits for places too", async verb => {
    const { adapter: own, state, inside, letGo } = gate()
    const umbra = await openOn(createMemoryStore(), { adapters: [own], pipeline: { maxExecutions: 2 } })
    await umbra.register({ ...(failing as object), name: "child" } as never)
    const jobs = await Promise.all(Array.from({ length: 6 }, () => umbra.submit(parent)))
    for (const job of jobs) expect((await job.wait()).status).toBe("FAILED")
    state.mode = "stay"
    const confirm = { unknown: true, unsafe: ["load"] }
    const { bulk_id } = await umbra.bulk.start({
      ...{ verb, filter: { workflow: "parent" }, rate: 1000 },
      ...(verb === "fork" ? { fork: { confirm } } : {}),
    })
    expect(await umbra.wait(bulk_id)).toMatchObject({ status: "COMPLETED", output: { done: 6, refused: 0 } })
    const filter = { workflow: "parent", limit: 100, statuses: ["PROCESSING"] as const }
    await until("all others wait for a place", async () => {
      const running = await umbra.jobs(filter)
      const views = await Promise.all(running.map(({ job_id }) => shown(umbra, job_id)))
      const waiting = views.filter(({ waiting_on }) => waiting_on?.kind === "executions")
      return running.length === 6 && waiting.length === 4 && inside.length === 2
    })
    state.mode = "pass"
    letGo()
    for (const { job_id } of await umbra.jobs(filter))
      expect((await umbra.wait(job_id)).status).toBe("COMPLETED")
    expect(state.most).toBe(2)
  })

  it("items of a list wait the same way", async () => {
    const { adapter: own, state, inside, letGo } = gate()
    const seen = recorder()
    state.mode = "stay"
    const umbra = await openOn(createMemoryStore(), { adapters: [own, seen], pipeline: { maxExecutions: 1 } })
    await umbra.register(child as never)
    await umbra.submit(failing)
    await until("a pipeline holds the place", () => inside.length === 1)
    const list = {
      name: "list",
      nodes: [{ ...(parent as { nodes: object[] }).nodes[0]!, for_each: [1, 2, 3] }],
    } as WorkflowSource
    const job = await umbra.submit(list)
    await until("all items wait", async () => {
      const { items } = await umbra.items(job.id, "load")
      return items.length === 3 && items.every(({ waiting_on }) => waiting_on?.kind === "executions")
    })
    expect((await shown(umbra, job.id)).waiting_on).toMatchObject({
      kind: "items",
      waiting: 3,
      waits: { executions: 3 },
    })
    letGo()
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(seen.seen).toHaveLength(3)
  })
})

describe("a job that an execution submits while a limit on jobs is reached", () => {
  const setup = () => {
    const clock = new VirtualClock()
    const stop = new AbortController()
    let tries = 0
    const submit = async (): Promise<string> => {
      tries += 1
      throw new UmbraError("E646", "You have 3 jobs that have not ended.")
    }
    const of = { signal: stop.signal, log: silentLog, now: () => clock.now() }
    const after = (ms: number, fire: () => void) => clock.after(ms, fire)
    return { clock, stop, tries: () => tries, ended: waitForRoom(submit, { ...of, after }) }
  }

  it("fails after ten minutes: all that are counted may be waiting for each other", async () => {
    const { clock, tries, ended } = setup()
    let isOver = false
    const caught = ended.catch(error => {
      isOver = true
      return error
    })
    const begun = clock.now()
    await until("it gives up", () => {
      clock.advance(60_000)
      return isOver
    })
    expect(await caught).toMatchObject({ code: "E646" })
    expect(clock.now() - begun).toBeGreaterThanOrEqual(600_000)
    expect(tries()).toBeGreaterThan(1)
  })

  it("is left when the execution stops", async () => {
    const { stop, tries, ended } = setup()
    await until("it was refused", () => tries() === 1)
    stop.abort()
    await expect(ended).rejects.toMatchObject({ code: "E646" })
  })
})
