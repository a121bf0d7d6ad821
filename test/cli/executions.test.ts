import { stripVTControlCharacters } from "node:util"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { liveView } from "../../src/cli/live/view.ts"
import { routesTable } from "../../src/cli/output/routes-table.ts"
import { paintFor, width } from "../../src/cli/output/terminal.ts"
import { lineagePicture } from "../../src/cli/pipelines/commands.ts"
import type { Lineage, Message } from "../../src/client/index.ts"
import type { RouteView } from "../../src/core/pipeline/view.ts"
import { adapter, numbers, route } from "../pipeline/scene.ts"
import { openStage, type Stage } from "../server/stage.ts"
import { umbra } from "./same-process.ts"
import { folderWith } from "./umbra.ts"

const plain = paintFor({}, { NO_COLOR: "1" })
const at = "2026-11-15T12:00:00.000Z"

const invocation = (adapter: string, more: object = {}) => ({
  ...{ adapter, attempt: 1, status: "completed" as const, at, duration_ms: 1.5, into: null, emitted: 0 },
  ...{ error: null, ...more },
})

function message(id: string, more: Partial<Message> = {}): Message {
  const rest = { correlation_id: "j/1", at, status: "completed" as const, body: { id } }
  const links = { replay_of: null, replayed_by: null }
  return {
    job_id: "j",
    id,
    parent: null,
    ...links,
    gathered: [],
    invocations: [invocation("step")],
    ...rest,
    ...more,
  }
}

describe("the tree of a message", () => {
  const lineage: Lineage = {
    message: message("batch:1", { parent: "work:1", gathered: ["batch:2"] }),
    inputs: [
      message("work:1", { parent: "source:1" }),
      message("batch:2", {
        parent: "work:2",
        invocations: [invocation("batch", { into: "batch:1", duration_ms: 0 })],
      }),
      message("source:1", { invocations: [invocation("read", { emitted: 2 })] }),
      message("work:2", { parent: "source:1" }),
    ],
    outputs: [
      message("store:1", {
        parent: "batch:1",
        status: "failed",
        invocations: [
          invocation("put", { status: "failed", error: { code: "E401", message: "no\u001b[2J room" } }),
          invocation("put", { status: "failed", attempt: 2, error: { code: "E401", message: "no room" } }),
        ],
      }),
      message("store:2", { parent: "batch:1", status: "pending", invocations: [], body_left_out: true }),
    ],
    is_cut: true,
  }

  it("has inputs above and outputs below, each message once, with adapters, status, duration and error", () => {
    expect(lineagePicture(lineage, plain).join("\n")).toBe(`\
  ┌ source:1  completed  {"id":"source:1"}
  │   read  completed  1.5 ms  → 2 messages
┌ work:1  completed  {"id":"work:1"}
│   step  completed  1.5 ms
│ ┌ work:2  completed  {"id":"work:2"}
│ │   step  completed  1.5 ms
├ batch:2  completed  {"id":"batch:2"}
│   batch  completed  gathered into batch:1
● batch:1  completed  with 1 message gathered  {"id":"batch:1"}
│   step  completed  1.5 ms
├ store:1  failed  {"id":"store:1"}
│   put  failed  1.5 ms  E401 no\ufffd[2J room
│   put  failed  1.5 ms  attempt 2  E401 no room
└ store:2  pending  (large)
… more messages exist: raise --limit, or show one of these messages.`)
  })
})

it("the tree of a message continues across a replay, and shows what runs", () => {
  const letter = message("work:1", { status: "failed", replayed_by: { job_id: "k", message: "work:1" } })
  const lineage: Lineage = {
    message: message("work:1", {
      ...{ job_id: "k", status: "running", replay_of: { job_id: "j", message: "work:1" } },
      invocations: [invocation("step"), invocation("slow", { status: "running", duration_ms: 4 })],
    }),
    inputs: [letter],
    outputs: [],
    is_cut: false,
  }
  expect(lineagePicture(lineage, plain).join("\n")).toBe(`\
┌ work:1  failed  {"id":"work:1"}
│   step  completed  1.5 ms
● work:1  running  replays work:1 of job j  {"id":"work:1"}
    step  completed  1.5 ms
    slow  running  4.0 ms so far`)
})

describe("the table of routes", () => {
  const view = (name: string, more: Partial<RouteView> = {}): RouteView => ({
    ...{ name, inbound: name, outbound: {}, adapters: [{ type: "http_fetch", breaker: "closed" }] },
    ...{ queued: 0, in_flight: 0, waiting: 0, done: 0, failed: 0, failed_tries: 0, dead_lettered: 0 },
    ...{ rate: 0, latency_ms: 0, concurrency: null, max_queued: 10_000_000, held_up_by: null, ...more },
  })
  const routes = [
    view("fetch", {
      ...{
        queued: 1_234_567,
        in_flight: 8,
        waiting: 2,
        done: 40,
        failed: 1,
        failed_tries: 3,
        dead_lettered: 1,
      },
      ...{ rate: 85.4, latency_ms: 93.2, concurrency: 8 },
      adapters: [
        { type: "http_fetch", breaker: "open" },
        { type: "split", breaker: "closed" },
      ],
    }),
    view("store", { adapters: [{ type: "log", breaker: null }] }),
  ]

  it("lines its columns up and names the adapter whose breaker is open", () => {
    expect(routesTable(routes, plain).join("\n")).toBe(`\
route     queued  in flight  retrying  done  failed tries  failed    rate  latency  at once  breaker
fetch  1,234,567          8         2    40             3       1  85.4/s    93 ms        8  open (http_fetch)
store          0          0         0     0             0       0       –        –        –  –`)
  })

  it("never breaks a line of a narrow terminal", () => {
    const coloured = paintFor({}, { FORCE_COLOR: "1" })
    for (const columns of [10, 40, 80, 90, 100])
      for (const line of routesTable(routes, coloured, columns))
        expect(width(stripVTControlCharacters(line)), `${columns}`).toBeLessThanOrEqual(columns)
  })
})

describe("on a terminal", () => {
  it("draws the table in place until the job has ended, and leaves the last one", async () => {
    let written = ""
    const stream = { isTTY: true, columns: 100, rows: 20, write: (text: string) => (written += text) }
    const routes = async () => [
      {
        ...zero,
        name: "only",
        inbound: "only",
        outbound: {},
        adapters: [],
        rate: 0,
        latency_ms: 0,
        concurrency: 1,
        max_queued: 10_000_000,
        held_up_by: null,
      },
    ]
    const graph = { nodes: [{ id: "pipeline" }], order: new Int32Array(1), dependencies: noEdges }
    const activity = () => ({ isHere: true, running: [], unserved: [] })
    const view = liveView(stream as never, { title: "flow  job x", graph, routes, activity })
    view.note("a line that stays")
    await view.end()
    const text = stripVTControlCharacters(written).replaceAll("\r", "")
    expect(text).toMatch(/a line that stays\nflow {2}job x\nroute .*breaker\nonly .*\nPENDING\n$/)
    expect(written.endsWith("\u001b[?25h")).toBe(true)
  })

  it("continues when a query fails", async () => {
    let written = ""
    const stream = { isTTY: false, write: (text: string) => (written += text) }
    const graph = { nodes: [{ id: "pipeline" }], order: new Int32Array(1), dependencies: noEdges }
    const routes = () => Promise.reject(new Error("away"))
    const activity = () => ({ isHere: false, running: [], unserved: [] })
    const view = liveView(stream as never, { title: "", graph, routes, activity })
    view.note("hello")
    await view.end()
    expect(written).toBe("hello\n")
  })
})

const zero = { queued: 0, in_flight: 0, waiting: 0, done: 0, failed: 0, failed_tries: 0, dead_lettered: 0 }
const noEdges = { starts: new Int32Array(2), items: new Int32Array(0) }

const picky = adapter("picky", ({ body }) => {
  if ((body as { n: number }).n === 2) throw Object.assign(new Error("two"), { retryable: false })
  return body
})
const flow = {
  name: "flow",
  init: { body: { count: 3 } },
  routes: [
    route("source", ["numbers"], { outbound: "work" }),
    route("work", ["picky"], { error_handling: { retries: 0, circuit_breaker: false } }),
  ],
}

describe("through a server", () => {
  let stage: Stage
  let job: string
  beforeAll(async () => {
    stage = await openStage({ umbra: { adapters: [numbers, picky] } })
    job = (await stage.umbra.submit(flow as never)).id
    await stage.umbra.wait(job)
  })
  afterAll(() => stage?.close())
  const run = (...parameters: string[]) => umbra([...parameters, "--server", stage.server.url])

  it("draws lineage, and gives it as JSON", async () => {
    const { stdout, code } = await run("lineage", job, "work:2")
    expect(code).toBe(0)
    expect(stdout).toMatch(/^┌ source:1 {2}completed/)
    expect(stdout).toMatch(/● work:2 {2}failed {2}\{"n":2\}\n {4}picky {2}failed {2}\S+ ms {2}E\d+ two\n$/)
    const json = JSON.parse((await run("lineage", job, "work:2", "--json")).stdout)
    expect(json).toMatchObject({ message: { id: "work:2" }, inputs: [{ id: "source:1" }], is_cut: false })
    const wrong = await run("lineage", job, "nothing:2")
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining("E706")])
  })

  it("lists dead letters, and replays them; the id alone is on standard output", async () => {
    const { stdout } = await run("dead-letters", job)
    expect(stdout).toMatch(/^work:2 {2}\S+Z {2}1 attempt\n {2}E\d+ two\n {2}\{"n":2\}\n/)
    expect(stdout).toContain(`umbra dead-letters ${job} --replay`)
    expect((await run("dead-letters", job, "--route", "source")).stdout).toContain(
      "no dead letters of this route",
    )
    const json = JSON.parse((await run("dead-letters", job, "--json")).stdout)
    expect(json).toMatchObject({ dead_letters: [{ id: "work:2", replayed_by: null }], next: null })
    const none = await run("dead-letters", job, "--replay", "work:1")
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining("E708")])
    const replayed = await run("dead-letters", job, "--replay", "work:2")
    expect(replayed.stdout).toMatch(/^[0-9a-f-]{36}\n$/)
    expect(replayed.stderr).toContain("1 message will be replayed.")
    const again = await run("dead-letters", job)
    expect(again.stdout).toContain(`replayed by job ${replayed.stdout.trim()}`)
    expect(again.stdout).not.toContain("--replay")
  })

  it("lists the jobs with dead letters, a page at a time, until they have been replayed", async () => {
    const list = async (...parameters: string[]) => (await run("dead-letters", ...parameters)).stdout
    const jobs: string[] = []
    for (let n = 0; n < 2; n++) {
      jobs.unshift((await stage.umbra.submit(flow as never)).id)
      await stage.umbra.wait(jobs[0]!)
    }
    const [newest, older] = jobs as [string, string]
    expect(await list()).toMatch(
      new RegExp(`^${newest}  flow@1  COMPLETED  1 dead letter\\n  work:2  E\\d+ two\\n${older}  `),
    )
    const first = await list("--limit", "1")
    expect(first).toMatch(new RegExp(`^${newest}  `))
    expect(first).not.toContain(older)
    const after = /More: umbra dead-letters --after (\S+)/.exec(first)![1]!
    expect(await list("--limit", "1", "--after", after)).toMatch(new RegExp(`^${older}  `))
    const json = JSON.parse(await list("--json"))
    expect(json.executions.slice(0, 2)).toMatchObject(
      jobs.map(job_id => ({ job_id, dead_letters: { count: 1, first: { message: "work:2" } } })),
    )
    for (const each of jobs)
      await stage.umbra.wait(
        (await run("dead-letters", each, "--replay", "--body", 'work:2={"n":5}')).stdout.trim(),
      )
    const left = await list()
    for (const each of jobs) expect(left).not.toContain(each)
  })

  it("lists all executions, a page at a time, with what became of their messages", async () => {
    const all = JSON.parse((await run("executions", "--json")).stdout).executions as { job_id: string }[]
    expect(all.map(({ job_id }) => job_id)).toContain(job)
    const healthy = (
      await stage.umbra.submit({ ...flow, name: "calm", init: { body: { count: 1 } } } as never)
    ).id
    await stage.umbra.wait(healthy)
    const failing = (await stage.umbra.submit(flow as never)).id
    await stage.umbra.wait(failing)
    const { stdout } = await run("executions", "--limit", "2")
    expect(stdout).toMatch(
      new RegExp(
        `^${failing}  flow@1  COMPLETED  3 done, 1 failed  1 dead letter\\n  work:2  E\\d+ two\\n` +
          `${healthy}  calm@1  COMPLETED  2 done\\nMore: umbra executions --after ${healthy} --server \\S+\\n$`,
      ),
    )
    const next = JSON.parse((await run("executions", "--after", failing, "--limit", "1", "--json")).stdout)
    expect(next).toMatchObject({ executions: [{ job_id: healthy }], complete: true })
  })

  it("replays messages with other bodies, as JSON or from a file", async () => {
    const folder = folderWith({ "body.json": '{"n": 7}', "broken.json": "{" })
    onTestFinished(folder.remove)
    const bodyAfter = async (body: string) => {
      const { id } = await stage.umbra.submit(flow as never)
      await stage.umbra.wait(id)
      const start = { cwd: folder.path }
      const replayed = await umbra(
        ["dead-letters", id, "--replay", "--body", body, "--server", stage.server.url],
        start,
      )
      if (replayed.code !== 0) return `${replayed.code} ${replayed.stderr}`
      const job = await stage.umbra.wait(replayed.stdout.trim())
      const { message } = await stage.umbra.pipelines.lineage(job.job_id, "work:1")
      return [job.status, message!.status, message!.body]
    }
    expect(await bodyAfter('work:2={"n": 6}')).toEqual(["COMPLETED", "completed", { n: 6 }])
    expect(await bodyAfter("work:2=@body.json")).toEqual(["COMPLETED", "completed", { n: 7 }])
    expect(await bodyAfter("work:2=@absent.json")).toMatch(/^2 .*absent\.json/s)
    expect(await bodyAfter("work:2=@broken.json")).toMatch(/^2 .*E604.*the body of work:2 is not JSON/s)
    expect(await bodyAfter("work:2")).toMatch(/^2 .*E604.*use ROUTE:NUMBER=JSON/s)
    expect(await bodyAfter("work:1={}")).toMatch(/^1 .*E708/)
  })

  it("refuses what does not go together", async () => {
    for (const parameters of [["--replay"], ["--route", "work"], ["--body", "work:2=1"]]) {
      const { code, stderr } = await run("dead-letters", ...parameters)
      expect([code, stderr], parameters.join(" ")).toEqual([2, expect.stringContaining("E604")])
    }
    for (const parameters of [
      ["--wait"],
      ["--workflow", "flow"],
      ["--body", "work:2=1"],
      ["--replay", "--route", "work"],
    ]) {
      const { code, stderr } = await run("dead-letters", job, ...parameters)
      expect([code, stderr], parameters.join(" ")).toEqual([2, expect.stringContaining("E604")])
    }
  })

  it("shows the routes of a job", async () => {
    const { stdout } = await run("jobs", "show", job)
    expect(stdout).toMatch(/\nroute +queued .*breaker\nsource .*\nwork +0 +0 +0 +2 +1 +1 .*\n$/)
    const json = JSON.parse((await run("jobs", "show", job, "--json")).stdout)
    expect(json.routes).toMatchObject([{ name: "source" }, { name: "work", dead_lettered: 1 }])
    const mermaid = (await run("jobs", "graph", job, "--format", "mermaid")).stdout
    expect(mermaid).toContain('r1["work<br/><small>0 in flight, 2 done, 1 failed</small>"]')
    expect(mermaid).toContain("r0 --> q1")
  })

  it("watches one to its end", async () => {
    // The dead letter of this job may have been replayed by now.
    const { job_id: fresh } = JSON.parse((await run("submit", "flow", "--wait", "--json")).stdout)
    const { stdout, code } = await run("watch", fresh)
    expect(code).toBe(1)
    expect(stdout).toMatch(/ work: 2 done, 1 failed\n/)
    expect(stdout).toContain("⚠ flow completed with dead letters")
    expect(stdout).toContain(
      `⚠ 1 message failed permanently. Show the errors: umbra dead-letters ${fresh} --server`,
    )
    expect(stdout).toMatch(/\n {2}work:2: E\d+ two\n/)
    expect((await run("watch", fresh, "--allow-dead-letters")).code).toBe(0)
    await run("dead-letters", fresh, "--replay")
    expect(await run("watch", fresh)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("✓ flow completed"),
    })
  })
})

const modules = `
export const numbers = { type: "numbers", process(message, { emit }) { for (const n of [1, 2, 3]) emit({ n }) } }
export const picky = { type: "picky", process({ body }) {
  if (body.n === 2 && !process.env.MENDED) throw Object.assign(new Error("two"), { retryable: false })
} }
`

describe("on a folder", () => {
  it("runs, lists, leaves a replay to the process that runs jobs, and runs it with --wait", async () => {
    const folder = folderWith({ "flow.json": JSON.stringify(flow), "adapters.mjs": modules })
    onTestFinished(folder.remove)
    const start = { cwd: folder.path }
    const adapters = ["--adapters", "adapters.mjs"]
    const ran = await umbra(["run", "flow.json", ...adapters, "--json"], start)
    const { job_id, routes, output, dead_letters } = JSON.parse(ran.stdout)
    expect([ran.code, dead_letters.count, dead_letters.first.message]).toEqual([1, 1, "work:2"])
    expect(output.routes.work).toEqual({ messages: 3, done: 2, failed: 1, failed_tries: 1, dead_lettered: 1 })
    expect(routes).toMatchObject([{ name: "source" }, { name: "work", dead_lettered: 1 }])
    const listed = await umbra(["executions"], start)
    expect(listed.stdout).toMatch(
      new RegExp(`^${job_id}  flow@1  COMPLETED  3 done, 1 failed  1 dead letter\\n`),
    )
    const left = await umbra(["dead-letters", job_id, "--replay", "--json"], start)
    const first = JSON.parse(left.stdout)
    expect(first).toMatchObject({ replayed: 1, labels: { replay_of: job_id } })
    // A command has none of the adapters: it must not have begun what it submitted.
    const shown = await umbra(["jobs", "show", first.job_id], start)
    expect(shown.stdout).toContain("waits for an engine: no engine runs")
    const resumed = await umbra(["resume", ...adapters], start)
    expect(resumed.code).toBe(1)
    expect(resumed.stdout).toContain("1 job completed.")
    expect(resumed.stdout).toMatch(
      /⚠ \S+ {2}flow {2}COMPLETED {2}1 message failed permanently, the first: work:1: E\d+ two/,
    )
    const again = await umbra(["dead-letters", first.job_id, "--replay", "--wait", ...adapters], {
      ...start,
      env: { MENDED: "1" },
    })
    expect(again).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/work: 1 done\n[\s\S]*✓ flow completed/),
    })
  })
})
