/** The order of a log: whatever the order of rows and events, the lines of an attempt stand between its start and its end. */
import fc from "fast-check"
import { expect, it } from "vitest"
import { JobLogs, type LogLine, type LogPageQuery } from "../../src/jobs/logs/logs.ts"
import type { LogQuery, LogRow } from "../../src/journal/port/logs.ts"
import { seed } from "../support/seed.ts"

interface Attempt {
  readonly node: number
  readonly fence: number
  readonly from: number
  readonly ms: number
  readonly lines: number
  /** The fact of the start is stored so much later than it began; null: with the end. */
  readonly startAfter: number | null
  readonly clock: number
}

const nodeId = (node: number) => `n${node}`
type Row = Omit<LogRow, "lost">

/** The log of a job whose events and rows are given, and that is complete unless `now` is soon after its end. */
function jobOf(
  events: readonly object[],
  fences: readonly number[],
  rows: readonly Row[],
  now = Number.MAX_SAFE_INTEGER,
) {
  const isOf = (attempt: { nodeId: string; fence: number }) => (row: Row) =>
    row.nodeId === attempt.nodeId && row.fence === attempt.fence
  const read = ({ nodeId, attempt, from, limit }: LogQuery) =>
    rows
      .filter(row => row.position >= from && (nodeId === undefined || row.nodeId === nodeId))
      .filter(row => attempt === undefined || row.attempt === attempt)
      .slice(0, limit)
      .map(row => {
        const before = rows.filter(
          other => isOf(row)(other) && other.run === row.run && other.firstLine < row.firstLine,
        )
        return { ...row, lost: row.firstLine - 1 - Math.max(0, ...before.map(({ lastLine }) => lastLine)) }
      })
  const extents = (
    _: string,
    asked: readonly { nodeId: string; fence: number; attempt: number; runId?: number }[],
  ) =>
    asked.map(one => {
      const own = rows.filter(isOf(one))
      const earlier = rows.filter(row => row.nodeId === one.nodeId && row.fence < one.fence)
      const [first = null, last = null] = [own[0]?.position, own.at(-1)?.position]
      const isRepeated = earlier.some(({ attempt }) => attempt === one.attempt)
      // The id of a run is 10 times its number.
      const ofRun = own.filter(({ run }) => one.runId === undefined || one.runId === run * 10)
      return { lastLine: Math.max(0, ...ofRun.map(({ lastLine }) => lastLine)), first, last, isRepeated }
    })
  const parts = {
    journal: {
      logs: {
        read: async (query: LogQuery) => read(query),
        extents: async (...given: never) => extents(...(given as Parameters<typeof extents>)),
      },
      providers: { jobWebhooks: async () => [] },
    },
    now: () => now,
    events: async (_: string, { after, limit }: { after: { seq: number; place: number }; limit: number }) => {
      const isAfter = ({ seq, place }: { seq: number; place: number }) =>
        seq > after.seq || (seq === after.seq && place > after.place)
      const left = events
        .flatMap((event, n) => (isAfter(event as never) ? [n] : []))
        .slice(0, Math.min(limit, 7))
      const last = events[left.at(-1)!] as { seq: number; place: number } | undefined
      const isEnd = last === undefined || last === events.at(-1)
      return { events: left.map(n => events[n]), fences: left.map(n => fences[n]), next: isEnd ? null : last }
    },
    state: async (_: string, seq: number) => {
      const attempt: number[] = []
      const startedAt = [0, 0, 0, 0, 0]
      for (const [n, event] of events.entries()) {
        const { seq: of, node, type, at } = event as { seq: number; node: string; type: string; at: number }
        const position = Number(node.slice(1))
        if (of > seq) break
        if (attempt[position] !== fences[n]) startedAt[position] = 0
        attempt[position] = fences[n]!
        if (type === "node.running") startedAt[position] = at
      }
      const graph = { nodes: startedAt.map((_, position) => ({ id: nodeId(position) })) }
      return { graph, attempt, startedAt, lists: new Map() }
    },
  }
  const logs = new JobLogs(parts as never)
  return async (query: Partial<LogPageQuery> = {}) => {
    const found: LogLine[] = []
    for (let after = query.after; ; ) {
      const { lines, next } = await logs.page("j", { limit: 1000, ...query, after })
      found.push(...lines)
      if (next === null) return found
      after = next
    }
  }
}

function made(attempts: readonly Attempt[], order: readonly number[]) {
  const facts: {
    at: number
    order: number
    events: { type: string; at: number; payload: object }[]
    of: Attempt
  }[] = []
  const rows: { at: number; row: Omit<Row, "position"> }[] = []
  for (const [n, of] of attempts.entries()) {
    const { from, ms, lines, startAfter, clock, fence } = of
    const end = from + ms
    const fact = (at: number, ...events: [string, number, object][]) =>
      facts.push({
        at,
        order: order[n % order.length]!,
        of,
        events: events.map(([type, time, payload]) => ({ type, at: time, payload })),
      })
    fact(from, ["node.queued", from, { reason: fence === 1 ? "dependencies_done" : "lost" }])
    const isStored = startAfter !== null && startAfter < ms
    const start: [string, number, object] = ["node.running", from, { worker: "w" }]
    if (isStored)
      fact(from + startAfter, ["node.running", from + startAfter, { worker: "w", started_at: from }])
    const logged = lines === 0 ? {} : { logged: { lines, fence } }
    fact(end, ...(isStored ? [] : [start]), ["node.completed", end, { duration_ms: ms, ...logged }])
    for (let first = 1; first <= lines; first += 4) {
      const last = Math.min(lines, first + 3)
      const at = (line: number) => Math.round(from + clock + (line / (lines + 1)) * ms)
      const own = Array.from({ length: last - first + 1 }, (_, i) => [at(first + i), 1, `line ${first + i}`])
      const row = {
        nodeId: nodeId(of.node),
        item: -1,
        fence,
        attempt: fence,
        run: 1,
        firstLine: first,
        lastLine: last,
        level: 1,
      }
      rows.push({
        at: at(last) + 100 + order[(n + first) % order.length]!,
        row: { ...row, lines: JSON.stringify(own) },
      })
    }
  }
  facts.sort((a, b) => a.at - b.at || a.order - b.order)
  const entries = facts.flatMap(({ events, of }, seq) =>
    events.map((event, place) => ({
      fence: of.fence,
      event: {
        ...event,
        ...{
          source: "worker",
          seq: seq + 1,
          place,
          correlation_id: "j",
          idempotency_key: `j:${seq + 1}:${place}`,
        },
        ...{ node: nodeId(of.node), attempt: of.fence },
      },
    })),
  )
  // Rows of one attempt are stored in their order.
  const stored = rows.toSorted((a, b) => a.at - b.at).map(({ row }, n): Row => ({ ...row, position: n + 1 }))
  const next = new Map<string, Row[]>()
  for (const row of stored.toSorted((a, b) => a.firstLine - b.firstLine)) {
    const key = `${row.nodeId}/${row.fence}`
    next.set(key, [...(next.get(key) ?? []), row])
  }
  const ordered = stored.map(({ position, nodeId, fence }) => ({
    ...next.get(`${nodeId}/${fence}`)!.shift()!,
    position,
  }))
  return {
    events: entries.map(({ event }) => event),
    fences: entries.map(({ fence }) => fence),
    rows: ordered,
  }
}

const attempt = (node: number) =>
  fc.record({
    ...{
      node: fc.constant(node),
      fence: fc.constant(1),
      from: fc.nat(2000),
      ms: fc.integer({ min: 1, max: 3000 }),
    },
    ...{
      lines: fc.nat(30),
      startAfter: fc.option(fc.integer({ min: 800, max: 3100 })),
      clock: fc.integer({ min: -500, max: 500 }),
    },
  })
const jobs = fc.record({
  attempts: fc.tuple(attempt(0), attempt(1), attempt(2), attempt(3), attempt(4)),
  order: fc.array(fc.nat(900), { minLength: 1, maxLength: 9 }),
  limit: fc.integer({ min: 1, max: 9 }),
})
const plain = (lines: readonly LogLine[]) => lines.map(({ id: _, ...line }) => line)

it("is dispatch, start, all lines and end of each attempt, in pages of any size and after any line", async () => {
  const property = fc.asyncProperty(jobs, async ({ attempts, order, limit }) => {
    const { events, fences, rows } = made(attempts, order)
    const read = jobOf(events, fences, rows)
    const whole = await read()
    for (const { node, from, lines } of attempts) {
      const own = whole.filter(line => line.node === nodeId(node))
      expect(own.map(({ message }) => message)).toEqual([
        ...["dispatched", "started on w"],
        ...Array.from({ length: lines }, (_, n) => `line ${n + 1}`),
        expect.stringMatching(/^completed after/),
      ])
      expect(own[1]!.at).toBe(from)
      expect(plain(await read({ node: nodeId(node) }))).toEqual(plain(own))
    }
    expect(await read({ limit })).toEqual(whole)
    for (let at = 0; at < whole.length; at += 5)
      expect(await read({ after: whole[at]!.id })).toEqual(whole.slice(at + 1))
  })
  await fc.assert(property, { seed, numRuns: 50 })
})

it("is complete and in this order for a reader that follows while rows and events are stored", async () => {
  const property = fc.asyncProperty(
    jobs,
    fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 6 }),
    async ({ attempts, order }, cuts) => {
      const { events, fences, rows } = made(attempts, order)
      const found: LogLine[] = []
      for (const cut of [...cuts.toSorted((a, b) => a - b), 1]) {
        const upTo = Math.round(cut * 6000)
        const seen =
          cut === 1
            ? events
            : events.filter(({ seq }) =>
                events.filter(event => event.seq === seq).every(({ at }) => at <= upTo),
              )
        const isStored = (row: Row) => (JSON.parse(row.lines!) as [number][]).at(-1)![0] + 1000 <= upTo
        const stored = rows.slice(
          0,
          cut === 1
            ? rows.length
            : Math.max(
                0,
                rows.findIndex(row => !isStored(row)),
              ),
        )
        found.push(...(await jobOf(seen, fences, stored, 0)({ after: found.at(-1)?.id })))
      }
      for (const { node, lines } of attempts) {
        const own = found.filter(line => line.node === nodeId(node))
        expect(own.flatMap(({ line }) => line ?? [])).toEqual(Array.from({ length: lines }, (_, n) => n + 1))
        const engine = own
          .filter(({ source }) => source === "engine")
          .map(({ message }) => message.split(" ")[0])
        expect(engine.toSorted()).toEqual(["completed", "dispatched", "started"])
        const startedAt = own.findIndex(({ message }) => message.startsWith("started"))
        if (lines > 0) expect(startedAt).toBeLessThan(own.findIndex(({ line }) => line === 1))
        expect(own.at(-1)!.message).toMatch(/^completed/)
      }
    },
  )
  await fc.assert(property, { seed, numRuns: 100 })
})

it("separates the lines of a run whose process died before its start was stored from the next run", async () => {
  const row = (fence: number, position: number, at: number): Row => ({
    ...{ nodeId: "n0", item: -1, fence, attempt: 1, run: 1, firstLine: 1, lastLine: 1, level: 1, position },
    lines: JSON.stringify([[at, 1, `of fence ${fence}`]]),
  })
  const event = (seq: number, type: string, at: number, payload: object) => ({
    ...{ type, at, payload, seq, place: 0, idempotency_key: `j:${seq}:0`, node: "n0", attempt: 1 },
  })
  const events = [
    event(1, "node.queued", 10, { reason: "dependencies_done" }),
    event(2, "node.running", 5000, { worker: "w2", started_at: 4000 }),
    event(3, "node.completed", 6000, { duration_ms: 2000, logged: { lines: 1, fence: 2 } }),
  ]
  const read = jobOf(events, [1, 2, 2], [row(1, 1, 20), row(2, 2, 4100)])
  const whole = await read()
  expect(whole.map(({ at, message }) => [at, message])).toEqual([
    [10, "dispatched"],
    [20, "started"],
    [20, "of fence 1"],
    [4000, "started again on w2"],
    [4100, "of fence 2"],
    [6000, "completed after 2000 ms"],
  ])
  for (const [at, { id }] of whole.entries()) expect(await read({ after: id })).toEqual(whole.slice(at + 1))
})

it("keeps a loss between the lines of the attempt that was lost and those of the next one", async () => {
  const row = (fence: number, attempt: number, position: number, lines: number[]): Row => ({
    ...{
      nodeId: "n0",
      item: -1,
      fence,
      attempt,
      run: 1,
      firstLine: 1,
      lastLine: lines.length,
      level: 1,
      position,
    },
    lines: JSON.stringify(lines.map(at => [at, 1, `of ${fence} at ${at}`])),
  })
  const event = (seq: number, type: string, at: number, attempt: number, payload: object) => ({
    ...{ type, at, payload, seq, place: 0, idempotency_key: `j:${seq}:0`, node: "n0", attempt },
  })
  for (const [handed_over, next] of [
    [true, 1],
    [false, 2],
  ] as const) {
    const events = [
      event(1, "node.queued", 10, 1, { reason: "dependencies_done" }),
      event(2, "node.running", 1000, 1, { worker: "w1", started_at: 15 }),
      event(3, "attempt.lost", 2000, 1, { worker: "w1", ...(handed_over && { handed_over }) }),
      event(4, "node.running", 5000, next, { worker: "w2", started_at: 4000 }),
      event(5, "node.completed", 6000, next, { duration_ms: 2000, logged: { lines: 1, fence: 2 } }),
    ]
    // The clock of the first worker is fast.
    const read = jobOf(events, [1, 1, 1, 2, 2], [row(1, 1, 1, [20, 7000]), row(2, next, 2, [3900])])
    const whole = await read()
    expect(whole.map(({ message }) => message)).toEqual([
      ...["dispatched", "started on w1", "of 1 at 20", "of 1 at 7000"],
      handed_over ? "handed over by worker w1" : "lost with worker w1",
      handed_over ? "started again on w2" : "started on w2",
      ...["of 2 at 3900", "completed after 2000 ms"],
    ])
    for (const [at, { id }] of whole.entries()) expect(await read({ after: id })).toEqual(whole.slice(at + 1))
  }
})

it("separates the runs of one attempt, whose lines may be mixed, and waits for those of the run that has ended it", async () => {
  const row = (run: number, position: number, firstLine: number, at: number, more: number[] = []): Row => ({
    ...{
      nodeId: "n0",
      item: -1,
      fence: 1,
      attempt: 1,
      run,
      firstLine,
      lastLine: firstLine + more.length,
      level: 1,
      position,
    },
    lines: JSON.stringify([at, ...more].map((time, n) => [time, 1, `${run}: ${firstLine + n}`])),
  })
  const event = (seq: number, type: string, at: number, payload: object) => ({
    ...{ type, at, payload, seq, place: 0, idempotency_key: `j:${seq}:0`, node: "n0", attempt: 1 },
  })
  const events = [
    event(1, "node.queued", 10, { reason: "dependencies_done" }),
    event(2, "node.running", 1200, { worker: "w1", started_at: 15 }),
    event(3, "node.completed", 9000, { duration_ms: 2000, logged: { lines: 3, fence: 1, run: 20 } }),
  ]
  const rows = [
    row(1, 1, 1, 20, [30]),
    row(2, 2, 1, 7000),
    // The worker that was cut off comes back.
    row(1, 3, 3, 40, [8000]),
    row(2, 4, 3, 7200),
  ]
  const read = jobOf(events, [1, 1, 1], rows)
  const whole = await read()
  expect(whole.map(({ message, line, run, lost }) => [message, line, run, lost])).toEqual([
    ["dispatched", undefined, undefined, undefined],
    ["started on w1", undefined, undefined, undefined],
    ["1: 1", 1, undefined, undefined],
    ["1: 2", 2, undefined, undefined],
    ["started again", undefined, undefined, undefined],
    ["2: 1", 1, 2, undefined],
    ["1: 3", 3, undefined, undefined],
    ["1: 4", 4, undefined, undefined],
    ["2: 3", 3, 2, 1],
    ["completed after 2000 ms", undefined, undefined, undefined],
  ])
  for (const [at, { id }] of whole.entries()) expect(await read({ after: id })).toEqual(whole.slice(at + 1))
  for (let limit = 1; limit < 5; limit++) expect(await read({ limit })).toEqual(whole)
  // A reader that follows: the run that was replaced has logged more lines than the one whose end waits for its own.
  const found: LogLine[] = []
  for (let stored = 0; stored <= rows.length; stored++)
    found.push(...(await jobOf(events, [1, 1, 1], rows.slice(0, stored), 9001)({ after: found.at(-1)?.id })))
  expect(found.map(({ message, line, run, lost }) => [message, line, run, lost])).toEqual(
    whole.map(({ message, line, run, lost }) => [message, line, run, lost]),
  )
})
