/**
 * S4: a reader that is cut at any byte and comes back, to this server or to another one of the same store, has in the
 * end every change once and in order: what it saw is compared with what the journal says.
 */

import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { defineHandler } from "../../src/worker/handler.ts"
import { until } from "../engine/stage.ts"
import fc from "../support/property.ts"
import { EventStream, type StreamEvent } from "./event-stream.ts"
import { ask, openStage, type Stage, type Store, stores } from "./stage.ts"

const workflows = [
  {
    name: "chain",
    nodes: [
      { id: "a", handler: "transform", config: { value: 1 } },
      { id: "b", handler: "pause", dependencies: ["a"] },
      { id: "c", handler: "transform", config: { value: 1 }, dependencies: ["b"] },
    ],
  },
  {
    name: "fails",
    nodes: [
      { id: "x", handler: "pause" },
      { id: "y", handler: "broken", dependencies: ["x"], retry: { max_attempts: 2, initial_seconds: 0.005 } },
    ],
  },
]

const handlers = [
  defineHandler({ name: "pause", run: () => new Promise(done => setTimeout(done, 3, 1)) }),
  defineHandler({
    name: "broken",
    run: () => {
      throw new Error("this handler always fails")
    },
  }),
]

const engine = { beatSeconds: 0.2, leaseSeconds: 5 }

/** Reads a stream to its end through connections that are cut after so many bytes, each to another server. */
async function readInPieces(
  urls: readonly string[],
  path: string,
  { cuts, isDone }: { cuts: readonly number[]; isDone: (events: readonly StreamEvent[]) => boolean },
): Promise<StreamEvent[]> {
  const events: StreamEvent[] = []
  let lastEventId: string | null = null
  for (let piece = 0; ; piece++) {
    const stream: EventStream = new EventStream(urls[piece % urls.length]!, path, { lastEventId })
    stream.cutAfterBytes = cuts[piece] ?? Number.POSITIVE_INFINITY
    const isWhole = () => isDone([...events, ...stream.events])
    await stream.until(() => isWhole() || stream.isClosed)
    const hadAll = isWhole()
    stream.cut()
    events.push(...stream.events)
    lastEventId = stream.lastEventId
    if (hadAll) return events
    if (stream.events.at(-1)?.event === "end") return events
  }
}

/** Cuts in the head of an answer, in the first event, in the middle of many. */
const cutList = fc.array(fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 200, max: 6000 })), {
  minLength: 3,
  maxLength: 25,
})

const JOBS = 12

describe.each(Object.entries(stores))("a stream that is cut, on %s", (kind, open) => {
  let store: Store
  const stages: Stage[] = []
  const urls: string[] = []

  beforeAll(async () => {
    store = await open()
    const servers = kind === "PostgreSQL" ? 2 : 1
    for (let n = 0; n < servers; n++) {
      const stage = await openStage({ location: store.location, umbra: { handlers, engine } })
      stages.push(stage)
      urls.push(stage.server.url)
    }
    for (const body of workflows)
      expect((await stages[0]!.ask("/workflows", { method: "POST", body })).status).toBe(201)
    // Both must own a part of the jobs.
    for (const stage of stages)
      await until(
        "it owns its part",
        async () => (await stage.ask("/ready")).body.partitions === 64 / servers,
      )
  })
  afterAll(async () => {
    await Promise.all(stages.map(stage => stage.close()))
    await store?.remove()
  })

  const submit = async (n: number): Promise<string> => {
    const { name } = workflows[n % workflows.length]!
    const url = urls[n % urls.length]!
    const { body } = await ask(url, "/jobs", { method: "POST", body: { workflow: name } })
    return body.job_id
  }
  const eventsOf = async (job: string) => (await ask(urls[0]!, `/jobs/${job}/events`, {})).body.events

  it("S4 all jobs of the owner: the union of the pieces is the journal", async () => {
    await fc.assert(
      fc.asyncProperty(cutList, async cuts => {
        let jobs: string[] | null = null
        const isOver = (events: readonly StreamEvent[]) =>
          jobs?.every(job =>
            events.some(
              ({ event, data }) => event === "job" && data.job_id === job && data.finished_at !== null,
            ),
          ) ?? false
        // The first piece must be there before the jobs are: what was before a snapshot is in no stream.
        const begin = new EventStream(urls[0]!, "/jobs/stream")
        await begin.until(() => begin.events.length > 0)
        begin.cut()
        const reading = readFrom(begin.lastEventId!, cuts, isOver)
        jobs = await Promise.all(Array.from({ length: JOBS }, (_, n) => submit(n)))
        const events = await reading
        expect(events.filter(({ event }) => event === "reset")).toEqual([])
        for (const job of jobs) {
          const received = events
            .filter(({ event, data }) => event === "job" && data.job_id === job)
            .map(({ data }) => `${data.status} ${data.updated_at}`)
          const expected = (await eventsOf(job))
            .filter(({ type }: { type: string }) => type.startsWith("job."))
            .map(({ to, at }: { to: string; at: string }) => `${to} ${at}`)
          expect(received, job).toEqual(expected)
        }
      }),
      { numRuns: 12, endOnFailure: true },
    )
  })

  async function readFrom(
    id: string,
    cuts: readonly number[],
    isDone: (events: readonly StreamEvent[]) => boolean,
  ): Promise<StreamEvent[]> {
    return readInPieces(urls, `/jobs/stream?last_event_id=${id}`, { cuts, isDone })
  }

  it("S4 one job with its nodes: the union of the pieces is the journal", async () => {
    await fc.assert(
      fc.asyncProperty(cutList, fc.integer({ min: 0, max: 3 }), async (cuts, n) => {
        const job = await submit(n)
        const events = await readInPieces([...urls].reverse(), `/jobs/${job}/stream`, {
          cuts,
          isDone: () => false,
        })
        const [first, ...rest] = events.filter(({ event }) => event !== "progress")
        expect(first?.event).toBe("snapshot")
        const seen = Number(first!.id!.split(".")[0])
        const received = rest
          .filter(({ event }) => event === "job" || event === "node")
          .map(({ id, data }) => `${job}:${id!.replace(".", ":")} ${data.status}`)
        const expected = (await eventsOf(job))
          .filter(({ seq, type }: { seq: number; type: string }) => seq > seen && /^(job|node)\./.test(type))
          .map(
            ({ idempotency_key, to }: { idempotency_key: string; to: string }) => `${idempotency_key} ${to}`,
          )
        expect(received).toEqual(expected)
        expect(events.filter(({ event }) => event === "snapshot" || event === "reset")).toHaveLength(1)
      }),
      { numRuns: 20, endOnFailure: true },
    )
  })
})
