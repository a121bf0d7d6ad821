/** What handlers log, from the attempt to the store: bounded, in rows, and never waited for. */
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { UmbraError } from "../../src/errors.ts"
import type { LoggedLines, StoredLine } from "../../src/log.ts"
import { silentLog } from "../../src/log.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { LogBuffer, type LogBufferOptions } from "../../src/worker/logs/buffer.ts"
import { lingers, talks } from "./fixtures/threads.ts"
import { task, worker } from "./support.ts"

/** A store of rows; while `error` is set it takes none. */
function storing(options: Partial<LogBufferOptions> = {}) {
  const rows: LoggedLines[] = []
  const state: { error: Error | null; writes: number } = { error: null, writes: 0 }
  const logs = new LogBuffer({
    ...{ maxBytes: 1_000_000, log: silentLog, delayMs: 1 },
    sink: async batch => {
      state.writes++
      if (state.error !== null) throw state.error
      rows.push(...batch)
    },
    ...options,
  })
  onTestFinished(() => logs.close())
  return { logs, rows, state }
}

const linesOf = (rows: readonly LoggedLines[]) =>
  rows.flatMap(({ lines }) => JSON.parse(lines) as StoredLine[])
const says = (count: number, text = "x") =>
  defineHandler({
    name: "says",
    run: (_, ctx) => {
      for (let n = 1; n <= count; n++) ctx.log.info({}, `${n} ${text}`)
      return null
    },
  })

describe("the log lines of attempts", () => {
  it("are numbered by attempt, and written together in rows", async () => {
    // Longer than the test: only the end of the buffer writes.
    const { logs, rows, state } = storing({ delayMs: 600_000 })
    const { run } = worker([says(3)], { logs })
    await Promise.all([
      run(task("says", { jobId: "a", attempt: 4, shownAttempt: 2 })),
      run(task("says", { jobId: "b", item: 7 })),
    ])
    await logs.close()
    expect(state.writes).toBe(1)
    expect(new Set(rows.map(({ runId }) => runId)).size).toBe(2)
    expect(rows.map(({ lines: _, runId: __, ...row }) => row)).toEqual([
      { jobId: "a", nodeId: "node", item: -1, fence: 4, attempt: 2, firstLine: 1, lastLine: 3, level: 1 },
      { jobId: "b", nodeId: "node", item: 7, fence: 1, attempt: 1, firstLine: 1, lastLine: 3, level: 1 },
    ])
    expect(linesOf(rows).map(([, level, message]) => [level, message])).toEqual(
      [1, 2, 3, 1, 2, 3].map(n => [1, `${n} x`]),
    )
  })

  it("are counted with the end of the attempt, also those that its buffer drops", async () => {
    const long = "x".repeat(300)
    const run = (_: unknown, ctx: { log: { info(fields: object, text: string): void } }) => {
      ctx.log.info({}, long)
      return null
    }
    const silent = defineHandler({ name: "silent", run: () => null })
    const drops = defineHandler({ name: "drops", run })
    const umbra = await openUmbra("memory:", { handlers: [drops, silent], worker: { logBufferBytes: 200 } })
    onTestFinished(() => umbra.close())
    const nodes = [
      { id: "a", handler: "drops" },
      { id: "b", handler: "silent" },
    ]
    const job = await umbra.submit({ name: "drops", nodes } as never)
    await job.wait()
    const { events } = await umbra.queries.eventPage(job.id, {
      ...{ after: { seq: -1, place: Number.POSITIVE_INFINITY }, limit: 100, maxBytes: 100_000 },
    })
    const logged = events.flatMap(({ node, payload }) => (payload.logged ? [[node, payload.logged]] : []))
    expect(logged).toEqual([["a", { lines: 1, fence: 1, run: expect.any(Number) }]])
    const page = () => umbra.queries.logs.page(job.id, { limit: 100, node: "a" })
    await expect.poll(async () => (await page()).pending).toBeUndefined()
    expect((await page()).lines.at(-1)).toMatchObject({ source: "engine", level: "warn", lost: 1 })
  })

  it("have at most so many bytes in one attempt; the rest is dropped and counted in a line", async () => {
    const { logs, rows } = storing()
    const { run } = worker([says(100, "x".repeat(100))], { logs, settings: { maxLogBytes: 2000 } })
    await run(task("says", { jobId: "a" }))
    await run(task("says", { jobId: "b" }))
    await logs.close()
    for (const job of ["a", "b"]) {
      const stored = linesOf(rows.filter(({ jobId }) => jobId === job))
      const kept = stored.slice(0, -1)
      expect(kept.map(([, , message]) => message)).toEqual(kept.map((_, n) => `${n + 1} ${"x".repeat(100)}`))
      const bytes = kept.reduce((sum, line) => sum + Buffer.byteLength(JSON.stringify(line)), 0)
      expect(bytes).toBeLessThanOrEqual(2000)
      expect(bytes).toBeGreaterThan(1800)
      expect(stored.at(-1)![2]).toMatch(
        new RegExp(`^${100 - kept.length} lines \\(\\d+ bytes\\) were dropped: .* and 2000 bytes`),
      )
    }
  })

  it("are in rows of at most 64 KB, and one that is longer is cut", async () => {
    const { logs, rows } = storing()
    const { run } = worker([says(100, "ä\u0001".repeat(1000))], { logs })
    await run(task("says"))
    const long = worker([says(1, "ä\u0001".repeat(100_000))], { logs })
    await long.run(task("says"))
    await logs.close()
    expect(rows.length).toBeGreaterThan(10)
    for (const { lines } of rows) expect(Buffer.byteLength(lines)).toBeLessThanOrEqual(65_536)
    expect(rows.map(({ firstLine }) => firstLine)).toEqual([
      1,
      ...rows.slice(0, -2).map(({ lastLine }) => lastLine + 1),
      1,
    ])
    expect(linesOf(rows).at(-1)![2]).toMatch(/ … \(cut: the line has 800\d{3} bytes\)$/)
  })

  it("wait for a store that does not answer; beyond the bound the oldest are dropped and counted", async () => {
    const { logs, rows, state } = storing({ maxBytes: 20_000 })
    state.error = new UmbraError("E501", "away")
    const { run } = worker([says(100, "y".repeat(80))], { logs })
    // Nothing waits: the attempts end while no line can be stored.
    for (const jobId of ["a", "b", "c"]) expect((await run(task("says", { jobId }))).type).toBe("completed")
    await expect.poll(() => state.writes).toBeGreaterThan(0)
    state.error = null
    await expect.poll(() => rows.length).toBeGreaterThan(0)
    await logs.close()
    const kept = linesOf(rows).length
    expect(kept + logs.dropped).toBe(300)
    expect(logs.dropped).toBeGreaterThan(0)
    expect(rows.at(-1)).toMatchObject({ jobId: "c", lastLine: 100 })
  })

  it("that the store rejects are dropped, and the next are stored", async () => {
    const { logs, rows, state } = storing()
    state.error = new UmbraError("E502", "no such text")
    const { run } = worker([says(2)], { logs })
    await run(task("says", { jobId: "a" }))
    await expect.poll(() => logs.dropped).toBe(2)
    state.error = null
    await run(task("says", { jobId: "b" }))
    await logs.close()
    expect(rows.map(({ jobId }) => jobId)).toEqual(["b"])
  })

  it("of a thread are stored, what it prints too if that is captured", async () => {
    for (const capturesConsole of [false, true]) {
      const { logs, rows } = storing()
      const { run, broker } = worker([talks], { logs, capturesConsole })
      expect((await run(task("talks"))).type).toBe("completed")
      await logs.close()
      expect(linesOf(rows).map(([, level, message, fields]) => [level, message, fields])).toEqual([
        [2, "logged", { n: 1 }],
        ...(capturesConsole ? [[1, "printed\nin a thread", undefined]] : []),
      ])
      await broker.drain(1000)
    }
  })

  it("have what a handler prints in the library only on request", async () => {
    const prints = defineHandler({
      name: "prints",
      run(_, ctx) {
        ctx.log.info({}, "logged")
        console.info("printed")
        return null
      },
    })
    const printed = vi.spyOn(console, "info").mockImplementation(() => {})
    onTestFinished(() => printed.mockRestore())
    for (const [options, found] of [
      [{}, ["logged"]],
      [{ capturesConsole: true }, ["logged", "printed"]],
    ] as const) {
      const umbra = await openUmbra("memory:", { handlers: [prints], ...options })
      onTestFinished(() => umbra.close())
      const job = await umbra.submit({ name: "prints", nodes: [{ id: "a", handler: "prints" }] } as never)
      await job.wait()
      const lines = async () => {
        const page = await umbra.queries.logs.page(job.id, { limit: 10, source: "handler" })
        return page.lines.map(({ message }) => message)
      }
      await expect.poll(lines).toEqual(found)
    }
  })

  it("of a handler that has ended are not those of the next attempt in its thread", async () => {
    for (const dies of [false, true]) {
      const { logs, rows } = storing()
      const { run, broker } = worker([lingers], { logs, capturesConsole: true, settings: { threads: 1 } })
      const config = { text: "of alice", dies }
      expect((await run(task("lingers", { jobId: "a", owner: "alice", config }))).type).toBe("completed")
      const second = await run(
        task("lingers", { jobId: "b", owner: "bob", config: { text: "of bob", dies } }),
      )
      expect(second.type).toBe(dies ? "failed" : "completed")
      expect(JSON.stringify(second)).not.toContain("alice")
      await logs.close()
      expect(JSON.stringify(rows)).not.toContain("of alice")
      await broker.drain(1000)
    }
  })

  it("cost nothing where there are none", async () => {
    const made: unknown[] = []
    const logs = new Proxy(storing().logs, { get: (...given) => made.push(given[1]) })
    const { run } = worker([says(0)], { logs })
    await run(task("says"))
    expect(made).toEqual([])
  })
})
