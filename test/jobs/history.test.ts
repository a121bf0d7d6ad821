/** A job at any past moment: what the server answers, what a client folds, and what was recorded are the same. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { fold } from "../../src/core/apply/apply.ts"
import { compiledGraph } from "../../src/core/compiled-graph.ts"
import type { Fact } from "../../src/core/facts.ts"
import { apply, type FactRecord, type GraphView, graphView, newState } from "../../src/core/index.ts"
import { payloadFields } from "../../src/core/payloads.ts"
import type { Graph } from "../../src/core/plan.ts"
import { type JobState, newJobState } from "../../src/core/state.ts"
import { expand } from "../../src/core/view/events.ts"
import { itemViews } from "../../src/core/view/item-view.ts"
import { eventPage } from "../../src/jobs/event-page.ts"
import type { ItemsAt } from "../../src/jobs/facts.ts"
import type { Place } from "../../src/jobs/history.ts"
import { openJournal } from "../../src/journal/open.ts"
import type { Journal } from "../../src/journal/port/journal.ts"
import { atOnce } from "../../src/turns.ts"
import { actions } from "../core/actions.ts"
import { dags, graphOf } from "../core/graphs.ts"
import { Mirror } from "../core/mirror.ts"
import { Simulation } from "../core/simulation.ts"
import fc from "../support/property.ts"
import { type StoredJob, storeJob } from "./stored.ts"

let journal: Journal
beforeAll(async () => {
  journal = await openJournal("memory:")
})
afterAll(() => journal?.close())

const written = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T

/** A graph as it was recorded when the job had this many facts. */
interface Recorded {
  readonly index: number
  readonly graph: GraphView
}

interface Life {
  readonly graph: Graph
  readonly facts: readonly Fact[]
  readonly recorded: readonly Recorded[]
}

const scripts = fc.array(actions, { minLength: 5, maxLength: 50, size: "max" })
const ttls = fc.constantFrom(null, null, 100)

const livesOfNodes: fc.Arbitrary<Life> = fc
  .record({ specs: dags(6), ttlSeconds: ttls, script: scripts })
  .map(({ specs, ttlSeconds, script }) => {
    const simulation = new Simulation(specs, { ttlSeconds })
    const recorded: Recorded[] = []
    const record = () => {
      const { journal: facts, state } = simulation
      if (facts.length === (recorded.at(-1)?.index ?? 0)) return
      const graph = written(graphView(state, { now: facts.at(-1)!.at }))
      recorded.push({ index: facts.length, graph })
    }
    record()
    for (const action of script) {
      simulation.act(action)
      record()
    }
    return { graph: simulation.graph, facts: written(simulation.journal), recorded }
  })

const livesOfItems: fc.Arbitrary<Life> = fc
  .record({ size: fc.integer({ min: 1, max: 6 }), ttlSeconds: ttls, script: scripts })
  .map(({ size, ttlSeconds, script }) => {
    const specs = Array.from({ length: size }, (_, n) => ({ id: `n${n}`, dependencies: [] }))
    const mirror = new Mirror(size)
    const simulation = new Simulation(specs, { ttlSeconds, core: mirror })
    for (const action of script)
      if (action.do !== "answer" || action.result.kind !== "skip") simulation.act(action)
    return { graph: mirror.graph, facts: written(mirror.journal), recorded: [] }
  })

/** Every payload is larger than a fact that is given whole. */
function inflated(fact: Fact): Fact {
  const large = written(fact) as unknown as Record<string, Record<string, unknown>>
  for (const field of payloadFields(fact.type)) {
    const [name, inner] = field.split(".") as [string, string?]
    const [of, key] = inner === undefined ? [large as Record<string, unknown>, name] : [large[name]!, inner]
    const value = of[key]
    if (value !== undefined) of[key] = Array.isArray(value) ? value.map(padded) : padded(value)
  }
  return large as unknown as Fact
}

const padded = (value: unknown) => ({ value, pad: "p".repeat(1200) })

/** Reads the payloads that a client's graph refers to. */
async function resolved(value: unknown, { facts, jobId }: StoredJob): Promise<unknown> {
  if (typeof value !== "object" || value === null) return value
  if ("$payload" in value) {
    const { seq, field } = value.$payload as { seq: number; field: string }
    return JSON.parse((await facts.payload(jobId, { seq, field })).text)
  }
  const entries = Object.entries(value).map(async ([key, member]) => [
    key,
    await resolved(member, { facts, jobId } as StoredJob),
  ])
  const all = Object.fromEntries(await Promise.all(entries))
  return Array.isArray(value) ? Object.values(all) : all
}

async function recordsOf({ facts, jobId }: StoredJob): Promise<FactRecord[]> {
  const records: FactRecord[] = []
  for (let page = { after: undefined as number | undefined, index: 0 }; ; ) {
    const { facts: found, next } = await facts.page(jobId, { ...page, limit: 7 })
    records.push(...written(found))
    if (next === null) return records
    page = { after: found.at(-1)!.seq, index: found.at(-1)!.index }
  }
}

async function sameItems(
  { facts, jobId }: StoredJob,
  whole: JobState,
  { index, at }: Pick<Place, "index" | "at">,
) {
  for (const [node, { id }] of whole.graph.nodes.entries()) {
    const all = written(itemViews(whole, node, { after: -1, limit: 1000, now: at }))
    const found = []
    for (let after: number | null = -1; after !== null; ) {
      const page: ItemsAt = await facts.itemsAt(jobId, id, { at: { index }, after, limit: 2 })
      expect(page.moment).toMatchObject({ index, at })
      found.push(...page.items)
      after = page.next
    }
    expect(written(found)).toEqual(all)
  }
}

async function sameAtEveryMoment(
  { graph, facts, recorded }: Life,
  isLarge: boolean,
  picks: readonly number[],
) {
  const given = isLarge ? facts.map(inflated) : facts
  const job = await storeJob(journal, graph, given, { spacing: 4 })
  const records = await recordsOf(job)
  expect(records.map(({ index }) => index)).toEqual(given.map((_, i) => i + 1))
  const compiled = written(atOnce(compiledGraph(graph)))
  for (const pick of picks) {
    const index = 1 + (pick % given.length)
    const { at } = given[index - 1]!
    const { moment, ...server } = await job.facts.graphAt(job.jobId, { index })
    expect(moment).toEqual({ index, seq: job.seq(index), at })
    const answered = written(server)
    const [whole, referring] = [newState(compiled), newState(compiled)]
    for (const fact of given.slice(0, index)) apply(whole, fact as unknown as FactRecord)
    for (const record of records.slice(0, index)) apply(referring, record)
    expect(answered).toEqual(written(graphView(whole, { now: at })))
    expect(answered).toEqual(await resolved(written(graphView(referring, { now: at })), job))
    await sameItems(job, whole, { index, at })
    const then = recorded.find(found => found.index === index)
    if (then !== undefined && !isLarge) expect(answered).toEqual(then.graph)
    const bySeq = await job.facts.graphAt(job.jobId, { seq: job.seq(index) })
    expect(written(bySeq)).toEqual(written({ moment, ...server }))
    const byTime = await job.facts.graphAt(job.jobId, { time: at })
    const later = given.findIndex(fact => fact.at > at)
    expect(byTime.moment.index).toBe(later === -1 ? given.length : later)
  }
}

const picks = fc.array(fc.nat(), { minLength: 2, maxLength: 4 })

describe("the graph at a past moment", () => {
  it("of random jobs: server = client, with and without payloads = as recorded", async () => {
    let compared = 0
    await fc.assert(
      fc.asyncProperty(livesOfNodes, fc.boolean(), picks, async (life, isLarge, chosen) => {
        await sameAtEveryMoment(life, isLarge, [
          ...chosen,
          ...life.recorded.slice(-2).map(({ index }) => index - 1),
        ])
        compared += life.recorded.length
      }),
      { numRuns: 40 },
    )
    expect(compared).toBeGreaterThan(200)
  })

  it("of random lists of items", async () => {
    await fc.assert(
      fc.asyncProperty(livesOfItems, fc.boolean(), picks, (life, isLarge, chosen) =>
        sameAtEveryMoment(life, isLarge, chosen),
      ),
      { numRuns: 30 },
    )
  })
})

describe("events from the middle of a job", () => {
  it("are those of the whole, wherever a page begins and ends", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(livesOfNodes, livesOfItems),
        fc.boolean(),
        fc.integer({ min: 1, max: 9 }),
        async ({ graph, facts }, isLarge, limit) => {
          const given = isLarge ? facts.map(inflated) : facts
          const job = await storeJob(journal, graph, given, { spacing: 4 })
          const state = newJobState(graph)
          const all = given.flatMap((fact, i) => expand(state, job.jobId, { seq: job.seq(i + 1), fact }))
          const found = []
          for (let after = { seq: -1, place: Number.POSITIVE_INFINITY }; ; ) {
            const page = await eventPage(job.parts, job.facts.history, job.jobId, {
              after,
              limit,
              maxBytes: 1e9,
            })
            found.push(...page.events)
            if (page.next === null) break
            expect(page.events).toHaveLength(limit)
            after = page.next
          }
          expect(written(found)).toEqual(written(all))
        },
      ),
      { numRuns: 30 },
    )
  })
})

const each = graphOf([{ id: "each", dependencies: [] }])

/** One node, and two facts for each of its items, or for the first ones. */
function ofItems(count: number, output: unknown, ended = count): Fact[] {
  const submitted = { workflow: "w", workflow_version: 1, input: null, expires_at: null, ttl_seconds: null }
  const facts: unknown[] = [
    { type: "job_submitted", at: 1000, owner: "a", priority: 0, ...submitted },
    { type: "node_expanded", at: 1001, node: 0, attempt: 1, items: new Array(count).fill(0) },
  ]
  for (let item = 0; item < ended; item++) {
    const of = { node: 0, item, attempt: 1 }
    facts.push({ type: "item_started", at: 1002 + item, ...of, worker: "w1" })
    facts.push({ type: "item_completed", at: 1003 + item, ...of, ran_ms: 1, output })
  }
  return facts as Fact[]
}

describe("what is read for it", () => {
  it("a page of 10 reads 10 rows, of 20,000 facts and of 50 MB of outputs, at its beginning and in its middle", async () => {
    const outputs = { text: "x".repeat(10_000) }
    const job = await storeJob(journal, each, ofItems(5000, outputs))
    for (const after of [undefined, 1, 4000, 9000]) {
      const from = after === undefined ? {} : { after: job.seq(after), index: after }
      job.taken()
      const { facts } = await job.facts.page(job.jobId, { ...from, limit: 10 })
      expect(facts.map(({ index }) => index)).toEqual(
        Array.from({ length: 10 }, (_, i) => (after ?? 0) + 1 + i),
      )
      const { rows, bytes } = job.taken()
      // Facts over 8 KiB are read by themselves.
      expect(rows).toBeLessThanOrEqual(20)
      expect(bytes).toBeLessThan(150_000)
    }
    const small = await storeJob(journal, each, ofItems(10_000, 0))
    small.taken()
    await small.facts.page(small.jobId, { after: small.seq(15_000), index: 15_000, limit: 10 })
    expect(small.taken().rows).toBe(10)
  })

  it("a page of very large facts ends after 4 MiB", async () => {
    const job = await storeJob(journal, each, ofItems(20, "x".repeat(1_000_000)))
    job.taken()
    const { facts, next } = await job.facts.page(job.jobId, { limit: 100 })
    expect(next).toBe(`${facts.at(-1)!.seq}.${facts.length}`)
    expect(facts.length).toBeLessThan(15)
    expect(job.taken().bytes).toBeLessThan(7_000_000)
    const rest = await job.facts.page(job.jobId, { after: facts.at(-1)!.seq, limit: 100 })
    expect(rest.facts[0]!.index).toBe(facts.length + 1)
  })

  it("the first 10 events read 10 rows; events of the middle read from a checkpoint on", async () => {
    const job = await storeJob(journal, each, ofItems(5000, 0))
    const page = (seq: number) =>
      eventPage(job.parts, job.facts.history, job.jobId, {
        ...{ after: { seq, place: Number.POSITIVE_INFINITY }, limit: 10, maxBytes: 1e6 },
      })
    job.taken()
    // The submission, which names the workflow, is read by itself.
    expect((await page(-1)).events).toHaveLength(10)
    expect(job.taken().rows).toBeLessThanOrEqual(12)
    await page(job.seq(9000))
    expect(job.taken().rows).toBeGreaterThan(9000)
    for (const index of [9001, 8010, 700, 5003]) {
      expect((await page(job.seq(index))).events[0]!.seq).toBe(job.seq(index + 1))
      // At most 1,000 facts after the checkpoint.
      expect(job.taken().rows).toBeLessThanOrEqual(1010)
    }
  })

  it("so do those of a list with 500,000 items", async () => {
    const job = await storeJob(journal, each, ofItems(500_000, 0, 3000))
    const page = (seq: number) =>
      eventPage(job.parts, job.facts.history, job.jobId, {
        ...{ after: { seq, place: Number.POSITIVE_INFINITY }, limit: 10, maxBytes: 1e6 },
      })
    await page(job.seq(5500))
    for (const index of [5501, 4010, 2003]) {
      job.taken()
      expect((await page(job.seq(index))).events[0]!.seq).toBe(job.seq(index + 1))
      expect(job.taken().rows).toBeLessThanOrEqual(1010)
    }
  })

  it("after the first request every moment is near a checkpoint, within the memory that there is", async () => {
    const cacheBytes = 2_000_000
    const job = await storeJob(journal, each, ofItems(5000, 0), { cacheBytes })
    const { history } = job.facts
    await job.facts.graphAt(job.jobId, { index: 3 })
    expect(history.bytes).toBeGreaterThan(0)
    expect(history.bytes).toBeLessThanOrEqual(cacheBytes)
    job.taken()
    for (const index of [9999, 4321, 77, 6000]) {
      const { nodes, moment } = await job.facts.graphAt(job.jobId, { index })
      expect(moment.index).toBe(index)
      const done = Math.floor((index - 2) / 2)
      expect(nodes[0]!.items).toMatchObject({ total: 5000, completed: done })
      expect(job.taken().rows).toBeLessThanOrEqual(3000)
    }
  })

  it("a job that has not been read for long makes room", async () => {
    const [first, second, third] = await Promise.all(
      [0, 1, 2].map(n => storeJob(journal, each, ofItems(700, n))),
    )
    await first!.facts.graphAt(first!.jobId, { index: 1400 })
    const alone = first!.facts.history.bytes
    expect(alone).toBeGreaterThan(0)
    const room = await storeJob(journal, each, [], { cacheBytes: 2 * alone + 1000 })
    const rowsFor = async ({ jobId }: StoredJob) => {
      room.taken()
      await room.facts.graphAt(jobId, { index: 1400 })
      return room.taken().rows
    }
    for (const job of [first!, second!]) expect(await rowsFor(job)).toBeGreaterThan(1400)
    for (const job of [first!, second!]) expect(await rowsFor(job)).toBeLessThan(500)
    expect(await rowsFor(third!)).toBeGreaterThan(1400)
    expect(room.facts.history.bytes).toBeLessThanOrEqual(2 * alone + 1000)
    expect(await rowsFor(second!)).toBeLessThan(500)
    expect(await rowsFor(first!)).toBeGreaterThan(1400)
  })

  it("facts of a type that this release does not know are ignored and counted", async () => {
    const facts = [...ofItems(2, 0), { type: "node_teleported", at: 2000, node: 0, to: "the moon" }] as Fact[]
    const job = await storeJob(journal, each, facts)
    const { moment, ...view } = await job.facts.graphAt(job.jobId, { index: facts.length })
    expect(written(view)).toEqual(written(graphView(fold(each, facts), { now: 2000 })))
    const state = newState(atOnce(compiledGraph(each)))
    for (const record of await recordsOf(job)) apply(state, record)
    expect(state.unknownFacts).toBe(1)
    expect(state.status).toBe("COMPLETED")
    expect(moment.index).toBe(facts.length)
  })
})
