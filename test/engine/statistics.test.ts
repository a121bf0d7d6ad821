/** What the statistics count of jobs that ran, against an evaluator that looks at their graphs and attempts. */
import fc from "fast-check"
import { describe, expect, it, onTestFinished } from "vitest"
import { apply, fold } from "../../src/core/apply/apply.ts"
import type { Fact } from "../../src/core/facts.ts"
import { newJobState } from "../../src/core/state.ts"
import { type AttemptView, attemptHistory } from "../../src/core/view/attempt-history.ts"
import { graphView, type NodeView } from "../../src/core/view/view.ts"
import type { Plan } from "../../src/definition/plan.ts"
import { type Clock, systemClock } from "../../src/engine/clock.ts"
import { Plans } from "../../src/engine/plans.ts"
import { type Percentiles, type UsageStatistics, workflowStatistics } from "../../src/jobs/statistics.ts"
import type { Journal } from "../../src/journal/port/journal.ts"
import { createMemoryStore, type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { atOnce } from "../../src/turns.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { fail } from "../../src/worker/fail.ts"
import { seed } from "../support/seed.ts"
import { flow, handler, open, openOn, soon, until } from "./stage.ts"

const HOUR = 3_600_000

/** Reads as any process does, whatever engines run. */
function statisticsOf(
  store: MemoryStore,
  workflow = "flow",
  over: { version?: number; owner?: string } = {},
) {
  const journal = openMemory(store)
  const [from, to] = [Date.now() - 2 * HOUR, Date.now() + HOUR]
  const parts = { journal, plans: new Plans(journal), now: Date.now }
  return workflowStatistics(parts, { owner: "local", workflow, from, to, ...over })
}

type Mode = "ok" | "flaky" | "fails" | "fails_once" | "hangs" | "skipped"

/** Does what the input of the job says for its node. */
function actor() {
  const failed = new Set<string>()
  const hanging = new Set<string>()
  const act = handler("act", async (_config, ctx) => {
    const mode = (ctx.input as { modes: Record<string, Mode> }).modes[ctx.nodeId]
    if (mode === "hangs") {
      hanging.add(ctx.jobId)
      await new Promise(resolve => ctx.signal.addEventListener("abort", resolve))
      // What is reported after the end of the job is not counted.
      return null
    }
    ctx.usage({ tokens: ctx.attempt, [ctx.nodeId]: 1 })
    const name = `${ctx.jobId}/${ctx.nodeId}`
    if (mode === "flaky" && !failed.has(name)) {
      failed.add(name)
      fail("not now", { code: "NOT_NOW", retryable: true })
    }
    if (mode === "fails") fail("never", { code: "NEVER", retryable: false })
    if (mode === "fails_once" && !failed.has(name)) {
      failed.add(name)
      fail("only once", { code: 'my "code"', retryable: false })
    }
    return ctx.nodeId
  })
  return { act, hanging }
}

/** What the evaluator knows of one end: counted without any code of the statistics. */
interface Expected {
  count: number
  failed: number
  cancelled: number
  attempts: number
  durations: number[]
  queued: number[]
  errors: Record<string, number>
  usage: Record<string, number>
  /** What each of those that completed used, by key. */
  used: Record<string, number[]>
}

class Evaluator {
  readonly nodes = new Map<string, Expected>()
  readonly job = none()

  /** The job has ended, for the first time or again. */
  async ended(umbra: Umbra, jobId: string): Promise<void> {
    const { plan, facts } = await umbra.queries.fold(jobId)
    const state = newJobState(plan)
    let end = 0
    for (const [index, { fact }] of facts.entries()) {
      const wasOpen = state.finishedAt === null
      apply(state, fact)
      if (wasOpen && state.finishedAt !== null) end = index
    }
    const retry = facts.slice(0, end).findLastIndex(({ fact }) => fact.type === "job_retried")
    const { status, finished_at, error } = await umbra.job(jobId)
    // Reports of workers that follow the end are not counted, neither with this end nor with the next one.
    const now = seenAfter(plan, facts.slice(0, end + 1))
    const before = retry === -1 ? null : seenAfter(plan, facts.slice(0, retry))
    const begin = facts[Math.max(0, retry)]!.fact.at
    this.job.count++
    if (status === "COMPLETED") {
      this.job.durations.push(Date.parse(finished_at!) - begin)
      addEach(this.job.used, now.usage, before?.usage)
    }
    if (status === "CANCELLED") this.job.cancelled++
    if (status === "FAILED") {
      this.job.failed++
      addTo(this.job.errors, { [error!.code]: 1 })
    }
    addTo(this.job.usage, now.usage, before?.usage)
    for (const [id, node] of now.nodes) {
      const earlier = before?.nodes.get(id)
      if (earlier?.status !== "COMPLETED" && earlier?.status !== "SKIPPED") this.#add(node, earlier)
    }
  }

  #add(node: Seen, before: Seen | undefined): void {
    const since = node.attempts.slice(before?.attempts.length ?? 0)
    const begun = since.filter(({ started_at }) => started_at !== null).length
    const isOwn = node.status === "COMPLETED" || (node.status === "FAILED" && node.error?.node === undefined)
    if (!isOwn && begun === 0) return
    const found = this.nodes.get(node.id) ?? none()
    this.nodes.set(node.id, found)
    if (isOwn) found.count++
    else found.cancelled++
    if (node.status === "FAILED") {
      found.failed++
      addTo(found.errors, { [node.error!.code]: 1 })
    }
    found.attempts += begun
    this.job.attempts += begun
    if (node.status === "COMPLETED") {
      found.durations.push(node.finished_at! - node.started_at!)
      addEach(found.used, node.usage ?? {}, before?.usage)
    }
    if (node.queued_ms !== null) found.queued.push(node.queued_ms)
    addTo(found.usage, node.usage ?? {}, before?.usage)
  }
}

type Seen = NodeView & { readonly attempts: readonly AttemptView[] }

/** What the job shows after these facts. */
function seenAfter(plan: Plan, facts: readonly { readonly fact: Fact }[]) {
  const now = facts.at(-1)!.fact.at
  const state = fold(
    plan,
    facts.map(({ fact }) => fact),
  )
  const { nodes, usage } = graphView(state, { now })
  const seen = nodes.map((view): [string, Seen] => {
    const of = { node: plan.nodes.findIndex(({ id }) => id === view.id) }
    const { attempts } = atOnce(attemptHistory(plan, facts, of, { now, begunAt: null }))
    return [view.id, { ...view, attempts }]
  })
  return { usage, nodes: new Map(seen) }
}

function none(): Expected {
  return {
    ...{ count: 0, failed: 0, cancelled: 0, attempts: 0, durations: [], queued: [] },
    ...{ errors: {}, usage: {}, used: {} },
  }
}

function addTo(
  sums: Record<string, number>,
  more: object,
  less: Readonly<Record<string, number>> = {},
): void {
  for (const [key, amount] of Object.entries(more)) {
    const added = amount - (less[key] ?? 0)
    if (added !== 0) sums[key] = (sums[key] ?? 0) + added
  }
}

function addEach(
  used: Record<string, number[]>,
  ...amounts: [object, Readonly<Record<string, number>>?]
): void {
  const added: Record<string, number> = {}
  addTo(added, ...amounts)
  for (const [key, amount] of Object.entries(added)) used[key] = [...(used[key] ?? []), amount]
}

interface Found {
  readonly count: number
  readonly failed: number
  readonly cancelled: number
  readonly attempts: number
  readonly errors: readonly { readonly code: string; readonly count: number }[]
  readonly usage: { readonly [key: string]: { readonly total: number } } | null
}

function counted({ count, failed, cancelled, attempts, errors, usage }: Found) {
  return {
    ...{ count, failed, cancelled, attempts },
    errors: Object.fromEntries(errors.map(each => [each.code, each.count])),
    usage: Object.fromEntries(Object.entries(usage ?? {}).map(([key, { total }]) => [key, total])),
  }
}

function expectWithin(found: Percentiles | null, values: readonly number[]): void {
  if (values.length === 0) expect(found).toBeNull()
  if (values.length === 0) return
  const sorted = [...values].sort((a, b) => a - b)
  for (const [name, rank] of [
    ["p50", 0.5],
    ["p90", 0.9],
    ["p95", 0.95],
    ["p99", 0.99],
  ] as const) {
    const exact = sorted[Math.max(1, Math.ceil(rank * sorted.length)) - 1]!
    expect(Math.abs(found![name] - exact)).toBeLessThanOrEqual(0.05 * exact)
  }
}

function expectUsage(
  usage: UsageStatistics | null,
  used: Readonly<Record<string, number[]>>,
  runs: number,
): void {
  for (const [key, { total, mean, ...found }] of Object.entries(usage ?? {})) {
    expect(mean).toBeCloseTo(total / runs)
    if (found.p50 === null) expect([found.p99, used[key]]).toEqual([null, undefined])
    else expectWithin(found as Percentiles, used[key]!)
  }
}

/** A clock under which ends are rolled up every few milliseconds. */
const quick: Clock = {
  ...systemClock,
  after: (ms, fire) => systemClock.after(ms === 15_000 ? 5 : ms, fire),
}

const nodeIds = ["a", "b", "c", "d"]
const drawnJob = fc.record({
  modes: fc.dictionary(
    fc.constantFrom(...nodeIds),
    fc.constantFrom<Mode>("ok", "flaky", "fails", "fails_once", "hangs", "skipped"),
  ),
  retries: fc.nat(2),
})
const drawn = fc.record({
  edges: fc.array(fc.integer({ min: 0, max: 15 }), { minLength: 4, maxLength: 4 }),
  jobs: fc.array(drawnJob, { minLength: 1, maxLength: 8 }),
})

describe("statistics", () => {
  it("equal what a naive evaluator counts, for random jobs that fail, are retried, skipped and cancelled", async () => {
    await fc.assert(
      fc.asyncProperty(drawn, async ({ edges, jobs }) => {
        const store = createMemoryStore({ partitions: 4 })
        const { act, hanging } = actor()
        const umbra = await openOn(store, { handlers: [act], clock: quick })
        const definition = flow(
          nodeIds.map((id, index) => ({
            ...{ id, handler: "act", retry: soon, when: `{{ input.modes.${id} != 'skipped' }}` },
            dependencies: nodeIds.filter((_, other) => other < index && ((edges[index]! >> other) & 1) === 1),
          })),
        )
        const evaluator = new Evaluator()
        const run = async ({ modes, retries }: (typeof jobs)[number]) => {
          const given = Object.fromEntries(nodeIds.map(id => [id, modes[id] ?? "ok"]))
          const job = await umbra.submit(definition, { modes: given })
          for (let left = retries; ; left--) {
            await until("it ends or hangs", async () => {
              if (hanging.has(job.id)) return true
              return (await umbra.job(job.id)).finished_at !== null
            })
            if (hanging.delete(job.id)) await umbra.cancel(job.id).catch(() => {})
            const { status } = await job.wait()
            await evaluator.ended(umbra, job.id)
            if (left === 0 || status === "COMPLETED") return
            await umbra.retry(job.id)
          }
        }
        await Promise.all(jobs.map(run))
        await umbra.close()
        const found = await statisticsOf(store)
        const { durations, queued: _, used, ...job } = evaluator.job
        expect(counted(found.jobs)).toEqual(job)
        expectUsage(found.jobs.usage, used, job.count)
        expectWithin(found.jobs.duration_ms, durations)
        expect(found.nodes.map(({ node }) => node)).toEqual(nodeIds.filter(id => evaluator.nodes.has(id)))
        for (const node of found.nodes) {
          const { durations, queued, used, ...rest } = evaluator.nodes.get(node.node)!
          expectUsage(node.usage, used, rest.count + rest.cancelled)
          expect(counted(node)).toEqual(rest)
          expectWithin(node.duration_ms, durations)
          expectWithin(node.queued_ms, queued)
        }
      }),
      { numRuns: 12, seed, endOnFailure: true },
    )
  })

  it("count every end once, whichever engine dies before or after whichever write", async () => {
    for (const [isBefore, at, width] of [
      [true, 1, 1],
      [false, 1, 1],
      [true, 3, 1],
      // Jobs whose rows do not have the metrics of all nodes.
      [false, 3, 40],
      [false, 6, 1],
    ] as const) {
      const store = createMemoryStore({ partitions: 4 })
      const { act } = actor()
      const options = { handlers: [act], clock: quick, engine: { leaseSeconds: 0.2, beatSeconds: 0.02 } }
      const dying = dyingJournal(openMemory(store), { isBefore, at })
      // It is never closed, as a process that was killed: none of its timers fires any more.
      const after: Clock["after"] = (ms, fire) => quick.after(ms, () => (dying.isDead() ? undefined : fire()))
      const first = await openUmbra(dying.journal, { ...options, clock: { ...quick, after } })
      const second = await openOn(store, options)
      const before = Array.from({ length: width }, (_, n) => `a${n}`)
      const definition = flow([
        ...before.map(id => ({ id, handler: "act" })),
        { id: "b", handler: "act", dependencies: before },
      ])
      const run = async (umbra: Umbra) => {
        const { id } = await umbra.submit(definition, { modes: { b: "fails_once" } })
        expect((await umbra.wait(id)).status).toBe("FAILED")
        await umbra.retry(id)
        expect((await umbra.wait(id)).status).toBe("COMPLETED")
      }
      await until("the first engine is dead", async () => {
        // Those of an engine that dies are never answered.
        for (let count = 0; count < 3; count++) void run(first)
        await run(second)
        return dying.isDead()
      })
      const countRows = (sql: string) =>
        store.connection.get<{ n: number }>(`select count(*) as n from ${sql}`)!.n
      await until("its jobs have ended too", () => countRows("jobs where finished_at is null") === 0)
      const retries = countRows("journal where type = 'job_retried'")
      const ends = countRows("jobs") + retries
      const failures = countRows("jobs where status = 'FAILED'") + retries
      await until("all are counted", async () => (await statisticsOf(store)).jobs.count >= ends)
      await second.close()
      await (await openOn(store, options)).close()
      const { jobs, nodes } = await statisticsOf(store)
      expect([jobs.count, jobs.failed]).toEqual([ends, failures])
      expect(nodes.map(({ node, count, failed }) => [node, count, failed])).toEqual([
        ...before.map(id => [id, countRows("jobs"), 0]),
        ["b", ends, failures],
      ])
    }
  })

  it("J17 retention waits for a job that is not counted", async () => {
    const store = createMemoryStore({ partitions: 2 })
    const { act } = actor()
    const journal = openMemory(store)
    let isAway = true
    const statistics = {
      ...journal.statistics,
      write: async (write: Parameters<typeof journal.statistics.write>[0]) => {
        if (isAway) throw new Error("not now")
        return journal.statistics.write(write)
      },
    }
    const engine = { retentionSeconds: 0.1, beatSeconds: 0.02, leaseSeconds: 2 }
    const umbra = await open({ at: { ...journal, statistics }, handlers: [act], engine })
    const { id } = await umbra.submit(flow([{ id: "a", handler: "act" }]), { modes: {} })
    await umbra.wait(id)
    const { finishedAt } = (await journal.readJob(id))!
    await until("it is old", () => Date.now() > finishedAt! + 1500)
    const free = { partitions: [0, 1], before: Date.now(), unsettledBefore: 0, limit: 10 }
    expect(await journal.endedJobs(free)).toMatchObject([{ id, isFree: false }])
    isAway = false
    await until("it is removed", async () => (await journal.readJob(id)) === null)
    expect((await statisticsOf(store)).jobs.count).toBe(1)
  })

  it.each(["readForUpdate", "write"] as const)(
    "J17 a job that ends while `%s` is in flight is counted, and removed, although no other follows",
    async verb => {
      const store = createMemoryStore({ partitions: 1 })
      const { act } = actor()
      const journal = openMemory(store)
      let entered = 0
      let leave = () => {}
      const gate = new Promise<void>(resolve => {
        leave = resolve
      })
      const call = journal.statistics[verb] as (argument: unknown) => Promise<never>
      const gated = async (argument: unknown) => {
        if (++entered === 1) await gate
        return call(argument)
      }
      const statistics = { ...journal.statistics, [verb]: gated } as typeof journal.statistics
      const engine = { retentionSeconds: 0.1, beatSeconds: 0.02, leaseSeconds: 2 }
      const umbra = await open({ at: { ...journal, statistics }, handlers: [act], engine })
      onTestFinished(() => leave())
      const end = async () => {
        const { id } = await umbra.submit(flow([{ id: "a", handler: "act" }]), { modes: {} })
        await umbra.wait(id)
        return (await journal.readJob(id))!
      }
      const first = await end()
      await until("the statistics are being written", () => entered === 1)
      const second = await end()
      await until("the next write is due", () => Date.now() > second.finishedAt! + 500)
      leave()
      const isGone = async ({ id }: { id: string }) => (await journal.readJob(id)) === null
      await until("both are removed", async () => (await isGone(first)) && (await isGone(second)))
      expect((await statisticsOf(store)).jobs.count).toBe(2)
    },
  )

  it("are of one owner and one version, and empty where there are no jobs", async () => {
    const store = createMemoryStore({ partitions: 2 })
    const { act } = actor()
    const umbra = await openOn(store, { handlers: [act] })
    const one = flow([{ id: "a", handler: "act" }])
    const two = flow([
      { id: "a", handler: "act" },
      { id: "b", handler: "act", dependencies: ["a"] },
    ])
    const wait = async ({ id }: { id: string }) => umbra.wait(id)
    await wait(await umbra.submit(one, { modes: {} }))
    await wait(await umbra.submit(two, { modes: {} }))
    await wait({ id: (await umbra.accept(one, { modes: { a: "fails" } }, { owner: "other" })).jobId })
    await umbra.register(flow([{ id: "a", handler: "act" }], { name: "unused" }))
    await umbra.close()
    const counts = async (...over: [string?, object?]) => {
      const { jobs, nodes, version, critical_path } = await statisticsOf(store, ...over)
      const path = critical_path.map(({ node }) => node)
      return [version, jobs.count, jobs.failed, nodes.map(({ node, count }) => `${node} ${count}`), path]
    }
    expect(await counts()).toEqual([null, 2, 0, ["a 2", "b 1"], ["a", "b"]])
    expect(await counts("flow", { version: 1 })).toEqual([1, 1, 0, ["a 1"], ["a"]])
    expect(await counts("flow", { owner: "other" })).toEqual([null, 1, 1, ["a 1"], ["a"]])
    expect(await counts("unused")).toEqual([null, 0, 0, [], []])
    const unused = await statisticsOf(store, "unused")
    expect(unused.jobs).toMatchObject({ duration_ms: null, queued_ms: null, usage: null, failure_rate: null })
    await expect(statisticsOf(store, "absent")).rejects.toThrow("absent")
    await expect(statisticsOf(store, "unused", { owner: "other" })).rejects.toThrow("unused")
  })
})

/** Like that of a process that is killed: from its nth write of statistics on, before or after it, nothing is answered. */
function dyingJournal(journal: Journal, { isBefore, at }: { isBefore: boolean; at: number }) {
  let writes = 0
  let isDead = false
  const silent = new Promise<never>(() => {})
  const wrap = <T extends object>(target: T): T =>
    new Proxy(target, {
      get(of, name, self) {
        const value = Reflect.get(of, name, self)
        if (typeof value === "object" && value !== null && name !== "capabilities") return wrap(value)
        if (typeof value !== "function") return value
        return (...args: unknown[]) => {
          if (isDead) return name === "notify" ? undefined : silent
          if (name === "write" && ++writes === at) {
            isDead = true
            return isBefore ? silent : value.apply(of, args).then(() => silent)
          }
          return value.apply(of, args)
        }
      },
    })
  return { journal: wrap(journal), isDead: () => isDead }
}
