/** Histories worth keeping: together they hold every kind of fact and every way a job can end. */
import type { OperationResult } from "../../src/core/commands.ts"
import { chain, fan } from "./graphs.ts"
import { final, Job, passing } from "./job.ts"

const apart = (...ids: readonly string[]) => ids.map(id => ({ id, dependencies: [] }))

export const scenarios: Readonly<Record<string, () => Job>> = {
  "chain-completed"() {
    const job = new Job(chain("a", "b", "c"))
    for (const id of ["a", "b"]) job.complete(id, { from: id, text: 'q"\u0000\ud800' })
    job.send(
      { type: "completed", node: 2, attempt: 1, output: [1, 2], usage: { tokens: 5 } },
      { result: { job_output: "out" } },
    )
    return job
  },
  "fan-in-any-order"() {
    const job = new Job(fan(5))
    for (const id of ["first", "p3", "p0", "p4", "p1", "p2"]) job.complete(id)
    job.start("join")
    return job
  },
  "document-order-is-not-topological"() {
    const job = new Job([
      { id: "last", dependencies: ["middle", "first"] },
      { id: "middle", dependencies: ["first"] },
      { id: "first", dependencies: [] },
    ])
    for (const id of ["first", "middle", "last"]) job.complete(id)
    return job
  },
  "retries-until-failed"() {
    const job = new Job([...chain("a", "b"), ...apart("beside")])
    for (const seconds of [15, 30]) {
      job.fail("a", { ...passing, details: { status: 503 } })
      job.pass(seconds)
    }
    job.start("a")
    job.fail("a", { ...passing, retry_after_seconds: 5 })
    return job
  },
  "retry-still-waiting"() {
    const job = new Job(chain("a"))
    job.random = 0.25
    job.fail("a", { ...passing, retry_after_seconds: 120 })
    return job
  },
  "failed-then-partially-retried"() {
    const job = new Job([...chain("a", "b", "c"), ...apart("skipped", "aborted")])
    job.complete("a")
    job.skip("skipped")
    job.preview("b", { half: true })
    job.fail("b", final)
    job.send({ type: "retry" })
    job.complete("b")
    job.complete("aborted")
    job.complete("c")
    return job
  },
  "cancelled-and-deleted"() {
    const job = new Job(apart("run", "nap"))
    job.start("run")
    job.sleep("nap", 60)
    job.send({ type: "cancel", reason: "no longer needed" })
    job.send({ type: "delete" })
    return job
  },
  "expired-then-retried"() {
    const job = new Job(chain("a", "b"), { ttlSeconds: 60 })
    job.complete("a")
    job.pass(60)
    job.send({ type: "retry" })
    return job
  },
  "lost-twice-then-completed"() {
    const job = new Job(apart("a", "b"))
    job.start("a")
    job.send({ type: "recover" })
    job.start("a")
    job.send({ type: "recover" })
    job.complete("a")
    return job
  },
  "lost-too-often"() {
    const job = new Job(chain("a", "b"))
    for (let crash = 0; crash < 3; crash++) {
      job.start("a")
      job.send({ type: "recover" })
    }
    return job
  },
  "signals-early-late-and-never"() {
    const job = new Job(apart("early", "late", "asks", "kept"))
    job.send({ type: "signal", name: "go", data: 1 })
    job.awaitSignal("early", "go")
    job.awaitSignal("late", "go")
    job.send({ type: "signal", name: "go", data: 2 })
    job.send({ type: "signal", name: "nobody", data: 3 })
    job.awaitSignal("asks", "answer", 30)
    return job
  },
  "signal-too-late"() {
    const job = new Job(apart("asks", "nap"))
    job.awaitSignal("asks", "answer", 30)
    job.sleep("nap", 30)
    job.pass(30)
    return job
  },
  "timers-complete-the-job"() {
    const job = new Job(apart("one", "two"))
    job.sleep("one", 10, "slept")
    job.sleep("two", 10, "slept too")
    job.pass(10)
    job.send({ type: "wake" }, { result: { job_output: { all: "rested" } } })
    return job
  },
  "output-does-not-render"() {
    const job = new Job(chain("a"))
    job.send({ type: "completed", node: 0, attempt: 1, output: 1 }, { result: { job_fault: final } })
    return job
  },
  "operations-at-a-provider"() {
    const job = new Job(apart("made", "refused", "queued", "dropped"))
    job.send({ type: "await_slot", node: 2, attempt: 1, provider: "acme" })
    job.submitted("made", "op-1")
    job.submitted("refused", "op-2")
    job.submitted("dropped", "op-3", { ttlSeconds: 600, poll: null })
    job.pass(30)
    job.news("made", "op-1", { type: "error", fault: passing })
    job.news("refused", "op-2", { type: "running", preview: { half: true } })
    job.news("refused", "op-2", { type: "hint" }, { source: "webhook" })
    job.news("made", "op-1", { type: "completed", output: "film", usage: { usd: 2 } }, { source: "webhook" })
    job.news("refused", "op-2", { type: "failed", fault: passing })
    job.send({ type: "grant_slot", node: 2 })
    job.complete("queued")
    job.pass(600)
    return job
  },
  "job-failed-by-the-engine"() {
    const job = new Job(chain("a", "b"))
    job.complete("a")
    job.send({ type: "fail_job", fault: final })
    return job
  },
  "items-failed-then-partially-retried"() {
    const job = new Job([
      { id: "each", dependencies: [], maxParallel: 2 },
      { id: "after", dependencies: ["each"] },
    ])
    const item = (index: number, attempt: number) => ({ node: 0, item: index, attempt })
    job.send({ type: "expand", node: 0, attempt: 1, items: ["a", { b: 1 }, null, 4] })
    job.send({ type: "started", ...item(0, 1), worker: "w1" })
    job.send({ type: "completed", ...item(1, 1), output: { one: 1 }, usage: { tokens: 2 } })
    job.send({ type: "recover" })
    job.send({ type: "failed", ...item(2, 2), fault: passing })
    job.send({ type: "waiting", ...item(0, 2), waiting: { kind: "signal", name: "go" } })
    job.send({ type: "signal", name: "go", data: "gone" })
    job.send({ type: "failed", ...item(3, 1), fault: final })
    job.send({ type: "retry" })
    job.send({ type: "preview", ...item(2, 4), data: "half" })
    job.send({ type: "completed", ...item(2, 4), output: null })
    job.send({ type: "completed", ...item(3, 2), output: [4] })
    job.complete("after")
    return job
  },
  "items-at-a-provider"() {
    const job = new Job([
      { id: "each", dependencies: [] },
      { id: "after", dependencies: ["each"] },
    ])
    const poll = { seconds: [30, 60], jitter: 0, maxErrors: null }
    const submitted = (item: number, attempt: number, externalId: string) =>
      job.send({
        ...{ type: "submitted", node: 0, item, attempt, provider: "acme", externalId },
        ...{ poll, ttlSeconds: 600 },
      })
    const news = (item: number, externalId: string, result: OperationResult) =>
      job.send({ type: "external", node: 0, item, externalId, source: "poll", poll, result })
    job.send({ type: "expand", node: 0, attempt: 1, items: ["a", "b", "c"] })
    job.send({ type: "await_slot", node: 0, item: 2, attempt: 1, provider: "acme" })
    submitted(0, 1, "op-0")
    submitted(1, 1, "op-1")
    job.pass(30)
    news(0, "op-0", { type: "running", preview: { half: true } })
    news(1, "op-1", { type: "failed", fault: passing })
    job.send({ type: "grant_slot", node: 0, item: 2 })
    submitted(2, 1, "op-2")
    news(0, "op-0", { type: "completed", output: "film", usage: { usd: 2 } })
    news(2, "op-2", { type: "error", fault: passing })
    job.pass(600)
    return job
  },
  "children-waited-for-and-orphaned"() {
    const job = new Job(apart("done", "open", "fails"))
    const child = (name: string) =>
      ({ kind: "child", job_id: `child of ${name}`, workflow: "inner", workflow_version: 2 }) as const
    for (const node of [0, 1]) job.send({ type: "waiting", node, attempt: 1, waiting: child(`${node}`) })
    job.complete("done", "the child's output")
    job.fail("fails", final)
    job.send({ type: "settle" })
    return job
  },
  "a-child-that-told-its-parent"() {
    const parent = { job_id: "the parent", node: 3, item: 1, path: ["outer", "middle"] }
    const job = new Job(chain("a"), { parent })
    job.complete("a")
    job.send({ type: "settle" })
    return job
  },
}
