import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { threadId } from "node:worker_threads"
import { afterAll, afterEach, describe, expect, it, onTestFinished, vi } from "vitest"
import { artifactSettings } from "../../src/artifacts/settings.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { loadHandlers } from "../../src/worker/load.ts"
import type { WorkerSettings } from "../../src/worker/settings.ts"
import { ThreadPool } from "../../src/worker/thread/pool.ts"
import * as threads from "./fixtures/threads.ts"
import { faultIn, outputIn, task, type WorkerOptions, worker } from "./support.ts"

const handlers = [threads.where, threads.spin, ...threads.several]
const started: ReturnType<typeof worker>[] = []

function threaded(settings: Partial<WorkerSettings> = {}, more: WorkerOptions = {}) {
  const secrets = (name: string) => (name === "KEY" ? "a-secret-value" : undefined)
  const one = worker(handlers, { settings: { threads: 2, ...settings }, secrets, ...more })
  started.push(one)
  return one
}

afterEach(() => Promise.all(started.splice(0).map(({ broker }) => broker.drain(0))))

const folder = mkdtempSync(join(tmpdir(), "umbra-threads-"))
afterAll(() => rmSync(folder, { recursive: true }))

/**
 * The loop writes thousands of times a second as long as it lives. A write that was in flight when the thread was killed
 * may still arrive, and on a busy machine the thread may be killed before its first write.
 */
async function expectNoPulse(path: string): Promise<void> {
  const size = () => statSync(path, { throwIfNoEntry: false })?.size ?? 0
  const grown = async () => {
    const before = size()
    await setTimeout(200)
    return size() - before
  }
  await expect.poll(grown).toBe(0)
}

describe("handlers in threads", () => {
  it("run elsewhere with everything a handler gets, and threads are used again", async () => {
    const { run } = threaded({ threads: 1 })
    const more = { jobId: "j", nodeId: "n", config: { a: 1 }, input: [2], parents: () => ({ p: 3 }) }
    const first = outputIn(await run(task("where", more)))
    expect(first).toMatchObject({ config: { a: 1 }, input: [2], parents: { p: 3 }, key: "j/n" })
    const second = outputIn(await run(task("where")))
    const ids = [first, second].map(output => (output as { threadId: number }).threadId)
    expect(ids[0]).not.toBe(threadId)
    expect(ids[1]).toBe(ids[0])
  })

  it("report progress, previews, usage and logs, without secrets", async () => {
    const { run, reports, of } = threaded()
    const late = [{ path: ["key"], source: "{{ secrets.KEY }}", names: {}, nodes: {} }]
    const outcome = await run(task("report", { config: { key: "" }, late }))
    const text = '{"key":"[secret KEY]"}'
    expect(outcome).toEqual({
      type: "completed",
      output: { text },
      text: JSON.stringify({ text }),
      usage: { tokens: 2 },
    })
    expect(of("progress")[0]!.data).toEqual({ percent: 10, message: text })
    expect(of("preview")[0]!.data).toEqual({ text })
    expect(of("log")[0]!.data).toMatchObject({
      level: "info",
      fields: { text, handler: "report" },
      message: text,
    })
    expect(JSON.stringify(reports)).not.toContain("a-secret-value")
  })

  it("J13 an endless loop is really killed after the grace, and the worker continues", async () => {
    const { run } = threaded({ threads: 1, graceSeconds: 0.1 })
    await run(task("where"))
    const pulse = join(folder, "timeout")
    const fault = faultIn(await run(task("spin", { config: { pulse }, timeoutSeconds: 0.5 })))
    expect(fault).toMatchObject({ code: "E402", retryable: true })
    expect(outputIn(await run(task("where")))).toMatchObject({ config: {} })
    await expectNoPulse(pulse)
  })

  it("J16 a cancelled loop is killed without an outcome", async () => {
    const { run, broker, of } = threaded({ threads: 1, graceSeconds: 0.05 })
    const pulse = join(folder, "cancelled")
    const spin = task("spin", { config: { pulse } })
    broker.dispatch(spin)
    await expect.poll(() => of("progress").length).toBe(1)
    broker.cancel(spin)
    expect(outputIn(await run(task("where")))).toMatchObject({ config: {} })
    expect(of("finished")).toHaveLength(1)
    await expectNoPulse(pulse)
  })

  it("J13 a thread's result that is received after timeout and grace does not count", async () => {
    // The event loop is busy from the start of the handler until after both; the result arrives meanwhile.
    const progressed = () => {
      const end = performance.now() + 300
      while (performance.now() < end);
    }
    const { run } = threaded({ threads: 1, graceSeconds: 0.05 }, { progressed })
    await run(task("where"))
    expect(faultIn(await run(task("naps", { timeoutSeconds: 0.1 }))).code).toBe("E402")
  })

  it("a thread without a heartbeat for heartbeat_seconds is killed", async () => {
    const { run } = threaded({ threads: 1, graceSeconds: 0.05 })
    await run(task("where"))
    const pulse = join(folder, "silent")
    const fault = faultIn(await run(task("spin", { config: { pulse }, heartbeatSeconds: 0.2 })))
    expect(fault).toMatchObject({ code: "E418", retryable: true })
    await expectNoPulse(pulse)
  })

  it("the time in which its module is loaded is neither run time nor a missed heartbeat", async () => {
    const until = join(folder, "loaded")
    const module = new URL("./fixtures/slow-load.ts", import.meta.url)
    vi.stubEnv("UMBRA_TEST_UNTIL", until)
    onTestFinished(() => void vi.unstubAllEnvs())
    const slow = defineHandler({ name: "slowly_loaded", thread: module.href, run: () => null })
    const settings = { threads: 1, graceSeconds: 0.05, startedAfterSeconds: 0.1 }
    const one = worker([slow], { settings })
    started.push(one)
    const { run, broker, reports } = one
    const loading = task("slowly_loaded", { heartbeatSeconds: 0.2 })
    const outcome = run(loading)
    const begun = performance.now()
    // Longer than heartbeat, grace and the time after which a start is reported.
    await expect.poll(() => performance.now() - begun, { interval: 20 }).toBeGreaterThan(400)
    expect([broker.isRunningHere(loading), broker.runningTask(loading)]).toEqual([true, null])
    expect(reports).toEqual([])
    writeFileSync(until, "")
    expect(outputIn(await outcome)).toBe("loaded")
  })

  it("heartbeats of a thread arrive as messages, however many it sends", async () => {
    const pool = new ThreadPool({ memoryMb: 128, loggedLate: () => {} })
    let heartbeats = 0
    const none = () => {}
    const ask = () => Promise.reject(new Error("not asked here"))
    const silent = { ask, progress: none, preview: none, log: none, logLate: none, printed: none }
    const reports = { heartbeat: () => heartbeats++, ...silent }
    const module = new URL("./fixtures/threads.ts", import.meta.url).href
    const artifacts = { location: null, settings: artifactSettings(), allowPrivateAddresses: false }
    const sizes = { maxOutputBytes: 1_000, maxPreviewBytes: 1_000, capturesConsole: false, artifacts }
    const beats = task("beats", { heartbeatSeconds: 60 })
    const outcome = await pool.run({ task: beats, module, config: {}, redactor: null, reports, ...sizes })
      .outcome
    await pool.close()
    expect(outputIn(outcome)).toBe("done")
    // At most one per 10 ms.
    expect(heartbeats).toBeGreaterThanOrEqual(1)
    expect(heartbeats).toBeLessThanOrEqual(21)
  })

  it("the abort signal reaches a thread that listens", async () => {
    // Without the signal it would run for the grace, which is longer than the test may take.
    const { run, of } = threaded({ threads: 1, graceSeconds: 3600 })
    await run(task("where"))
    expect(faultIn(await run(task("polite", { timeoutSeconds: 1.5 }))).code).toBe("E402")
    expect(of("progress")).toHaveLength(1)
  })

  it("J13 a handler does not begin when its attempt timed out while its module was loaded", async () => {
    const until = join(folder, "late")
    const module = new URL("./fixtures/slow-load.ts", import.meta.url).href
    vi.stubEnv("UMBRA_TEST_UNTIL", until)
    onTestFinished(() => void vi.unstubAllEnvs())
    const late = defineHandler({ name: "slowly_loaded", thread: module, run: () => null })
    const one = worker([late], { settings: { threads: 1, graceSeconds: 3600 } })
    started.push(one)
    const outcome = one.run(task("slowly_loaded", { timeoutSeconds: 0.1 }))
    // Timers of one thread fire in their order: the timeout comes first.
    await setTimeout(500)
    writeFileSync(until, "")
    expect(faultIn(await outcome).code).toBe("E402")
    expect(one.of("progress")).toEqual([])
  })

  it.each([
    ["exit", "exited with code 3"],
    ["hoard", "more memory than UMBRA_THREAD_MEMORY_MB allows"],
    ["stray", "an error outside the handler's own promise"],
  ])("a thread that dies (%s) is a fault that may pass, and is replaced", async (name, message) => {
    const { run } = threaded({ threads: 1, threadMemoryMb: 64 })
    const fault = faultIn(await run(task(name)))
    expect(fault).toMatchObject({ code: "E415", retryable: true })
    expect(fault.message).toContain(message)
    expect(outputIn(await run(task("where")))).toMatchObject({ config: {} })
  })

  it("the same checks count: output that is not JSON, errors with a status", async () => {
    const { run } = threaded()
    expect(faultIn(await run(task("not_json")))).toMatchObject({ code: "E404", details: { path: "at" } })
    expect(faultIn(await run(task("throws")))).toMatchObject({ message: "teapot", retryable: false })
  })

  it("thread: true stands for the module that was loaded", async () => {
    const loaded = await loadHandlers(fileURLToPath(new URL("./fixtures/threads.ts", import.meta.url)))
    const placed = worker(loaded.filter(({ name }) => name === "placed"))
    started.push(placed)
    expect(outputIn(await placed.run(task("placed")))).not.toBe(threadId)
  })
})
