import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import pg from "pg"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { freshDatabase } from "../support/services.ts"
import { handlersModule, oneNode } from "./handlers-for-runs.ts"
import { umbra } from "./same-process.ts"
import { folderWith, startUmbra } from "./umbra.ts"

const folder = folderWith({ "handlers.mjs": handlersModule })
const path = (name: string) => join(folder.path, name)
const handlers = ["--handlers", path("handlers.mjs")]
afterAll(() => folder.remove())

/** `first` is done when `second` fails; `third` waits for both. */
const failing = (log: string) => ({
  name: "failing",
  nodes: [
    { id: "first", handler: "echo", config: { log } },
    {
      id: "second",
      handler: "fails_once",
      config: { log },
      dependencies: ["first"],
      retry: { max_attempts: 1 },
    },
    { id: "third", handler: "echo", config: { log }, dependencies: ["second"] },
  ],
})

const stores: [name: string, open: () => Promise<{ flags: string[]; drop(): Promise<void> }>][] = [
  ["a folder", async () => ({ flags: ["--data-dir", path("data")], drop: async () => {} })],
  [
    "PostgreSQL",
    async () => {
      const database = await freshDatabase()
      return { flags: ["--database-url", database.url], drop: database.drop }
    },
  ],
]

describe.each(stores)("umbra jobs on %s", (name, open) => {
  let flags: string[]
  let drop: () => Promise<void>
  let failed: string
  // Opening a folder takes a second: there it is enough that each kind of command works.
  const itOnPostgres = (behaviour: string, test: () => Promise<void>) =>
    name === "a folder" ? undefined : it(behaviour, test)
  const log = path(`${name.replace(/\W/g, "-")}.log`)
  const jobs = async (...parameters: string[]) => umbra(["jobs", ...parameters, ...flags])
  const json = async (...parameters: string[]) => {
    const ended = await jobs(...parameters, "--json")
    expect(ended).toMatchObject({ code: 0, stderr: "" })
    return JSON.parse(ended.stdout)
  }

  beforeAll(async () => {
    const store = await open()
    flags = store.flags
    drop = store.drop
    writeFileSync(path("failing.json"), JSON.stringify(failing(log)))
    const ended = await umbra(["run", path("failing.json"), ...handlers, ...flags, "--json"])
    failed = JSON.parse(ended.stdout).job_id
    writeFileSync(path("echo.json"), oneNode("echo"))
    await umbra(["run", path("echo.json"), ...handlers, ...flags])
  })
  afterAll(() => drop())

  itOnPostgres("list shows the newest first, in pages, and filters by status and workflow", async () => {
    const all = await json("list")
    expect(all.jobs.map((job: { workflow: string }) => job.workflow)).toEqual(["echo", "failing"])
    const page = await json("list", "--limit", "1")
    expect(page).toMatchObject({ jobs: [all.jobs[0]], next: all.jobs[0].job_id, complete: true })
    expect(await json("list", "--limit", "1", "--after", page.next)).toEqual({
      ...{ jobs: [all.jobs[1]], next: null, complete: true, scanned_to: null },
    })
    expect((await json("list", "--status", "failed,expired")).jobs).toEqual([all.jobs[1]])
    expect((await json("list", "--workflow", "echo")).jobs).toEqual([all.jobs[0]])
    const { stdout } = await umbra(["jobs", "list", "--limit", "1", "--status", "failed,completed", ...flags])
    expect(stdout).toContain(`More, with the same options: umbra jobs list --after ${page.next}`)
  })

  itOnPostgres("J9 show and graph tell what failed, and which nodes were brought down by it", async () => {
    const shown = await json("show", failed)
    expect(shown).toMatchObject({ job_id: failed, status: "FAILED", error: { node: "second", code: "E401" } })
    expect(shown.nodes.map(({ status }: { status: string }) => status)).toEqual([
      "COMPLETED",
      "FAILED",
      "FAILED",
    ])
    const graph = await json("graph", failed)
    expect(graph.edges).toEqual([
      { from: "first", to: "second" },
      { from: "second", to: "third" },
    ])
    expect(graph.nodes[2]).toMatchObject({ id: "third", error: { node: "second" } })
  })

  itOnPostgres("show with a node lists every attempt at it", async () => {
    const shown = await json("show", failed, "second")
    expect(shown).toMatchObject({
      ...{ id: "second", status: "FAILED", attempt: 1, max_attempts: 1, attempts_total: 1 },
      attempts: [
        {
          attempt: 1,
          outcome: "failed",
          worker: expect.stringMatching(/^local-/),
          error: { code: "E401", message: "first" },
        },
      ],
    })
    const { stdout } = await jobs("show", failed, "second")
    expect(stdout).toMatch(/1 attempt\n {4}1 {2}failed +\d+ ms {2}\d{4}-.*on local-\d+[\s\S]*E401 first/)
    expect((await jobs("show", failed, "third")).stdout).toMatch(/^no attempt$/m)
    expect((await jobs("show", failed, "none")).stderr).toContain("E310")
  })

  itOnPostgres("graph draws a tree or Mermaid, show and list are for people", async () => {
    const tree = await jobs("graph", failed)
    expect(tree.stdout).toMatch(
      /^FAILED {2}33 %\n {2}first {3}COMPLETED .*\n {2}second {2}FAILED .*first\n {2}third /,
    )
    const mermaid = await jobs("graph", failed, "--format", "mermaid")
    expect(mermaid.stdout).toMatch(
      /^flowchart TD\n {2}n0\["first<br\/><small>COMPLETED<\/small>"\]:::COMPLETED/,
    )
    expect(mermaid.stdout).toContain("n0 --> n1")
    expect((await jobs("show", failed)).stdout).toMatch(
      /status +FAILED {2}33 %[\s\S]*error +node second: E401 first/,
    )
    expect((await jobs("list")).stdout).toMatch(new RegExp(`${failed} {2}FAILED +failing@1 `))
  })

  itOnPostgres("J18 events tells every transition, derived ones too, a line of JSON each", async () => {
    const { stdout } = await jobs("events", failed, "--json")
    const events = stdout
      .trim()
      .split("\n")
      .map(line => JSON.parse(line))
    expect(events.map(({ type, node }) => (node ? `${type} ${node}` : type))).toEqual([
      ...["job.pending", "job.queued", "job.dispatching", "node.queued first", "job.processing"],
      ...["node.running first", "node.completed first", "node.queued second"],
      ...["node.running second", "node.failed second", "node.failed third", "job.failed"],
    ])
    expect(events.every(({ correlation_id }) => correlation_id === failed)).toBe(true)
    expect((await jobs("events", failed)).stdout).toMatch(/node\.failed +worker +second#1 {2}\{"fault"/)
  })

  it("J10 retry puts back what is not done, and --wait runs exactly that", async () => {
    const first = await jobs("retry", failed)
    expect(first).toMatchObject({ code: 0, stderr: "" })
    expect(first.stdout).toMatch(/will be retried\. No engine runs it yet; start one with `umbra resume/)
    expect((await json("show", failed)).status).toMatch(/QUEUED|DISPATCHING|PROCESSING/)
    const cancelled = await jobs("cancel", failed, "--reason", "not today")
    expect(cancelled.stdout).toBe(`Job ${failed} is cancelled; its completed nodes stay completed.\n`)
    expect((await jobs("show", failed)).stdout).toMatch(
      /second +CANCELLED.*The job was cancelled: not today$/m,
    )
    const waited = await umbra(["jobs", "retry", failed, "--wait", "--json", ...handlers, ...flags])
    expect(waited.code).toBe(0)
    expect(JSON.parse(waited.stdout)).toMatchObject({ status: "COMPLETED" })
    const ran = readFileSync(log, "utf8").trim().split("\n")
    expect(ran.filter(line => line.startsWith("first"))).toEqual(["first 1"])
    expect(ran.filter(line => line.startsWith("third"))).toHaveLength(1)
  })

  itOnPostgres("refuses what makes no sense, with a code and exit 1", async () => {
    const done = (await json("list", "--workflow", "echo")).jobs[0].job_id
    const refusals = [
      [await jobs("cancel", done), /E302 Job .* has already ended/],
      [await jobs("retry", done), /E307 /],
      [
        await jobs(
          "show",
          done.replace(/.$/, (end: string) => (end === "0" ? "1" : "0")),
        ),
        /E301 Job .* does not exist/,
      ],
      [await jobs("show", "abc"), /E301 "abc" is not a job id/],
    ] as const
    for (const [ended, message] of refusals) {
      expect(ended).toMatchObject({ code: 1, stdout: "" })
      expect(ended.stderr).toMatch(message)
    }
  })

  itOnPostgres("delete hides a job that has ended", async () => {
    const done = (await json("list", "--workflow", "echo")).jobs[0].job_id
    expect((await json("delete", done)).status).toBe("DELETED")
    expect((await json("list", "--workflow", "echo")).jobs).toEqual([])
    expect((await json("list", "--workflow", "echo", "--deleted")).jobs).toHaveLength(1)
  })

  it("J18 verify finds nothing to complain about, deleted jobs included", async () => {
    expect(await json("verify", "--all")).toEqual({ checked: 2, different: [] })
    expect((await jobs("verify")).stderr).toMatch(/E604 name one job, or use --all/)
  })

  it("submit, list, why and reschedule know the start of a job", async () => {
    const submitted = await umbra(["submit", "echo", "--delay", "2h", ...flags, "--json"])
    const { job_id, status, start_at, created_at } = JSON.parse(submitted.stdout)
    expect([status, Date.parse(start_at) - Date.parse(created_at)]).toEqual(["PENDING", 7_200_000])
    expect((await jobs("list", "--status", "pending")).stdout).toContain(job_id)
    expect((await jobs("show", job_id)).stdout).toMatch(new RegExp(`start +${start_at}`))
    const time = "2040-01-01T08:00:00+01:00"
    const moved = await jobs("reschedule", job_id, "--start-at", time)
    expect(moved).toMatchObject({ code: 0, stdout: `Job ${job_id} starts at 2040-01-01T07:00:00.000Z.\n` })
    for (const wrong of [
      [],
      ["--delay", "soon"],
      ["--start-at", "2040-01-01"],
      ["--delay", "1h", "--start-at", time],
    ])
      expect((await jobs("reschedule", job_id, ...wrong)).code).toBe(2)
    expect((await jobs("reschedule", job_id)).stderr).toContain("give --start-at TIME or --delay DURATION")
    expect((await umbra(["why", job_id, ...flags])).stdout).toContain(
      "start time of the job, 2040-01-01T07:00:00.000Z",
    )
    expect((await jobs("delete", job_id)).code).toBe(0)
    const refused = await jobs("reschedule", failed, "--delay", "1h")
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("E302") })
  })
})

it("commands on a folder start neither delayed jobs that are due nor ticks of schedules", async () => {
  const folder = ["--data-dir", path("later")]
  const run = async (...command: string[]) => {
    const { code, stdout, stderr } = await umbra([...command, ...folder])
    expect(code, stderr).toBe(0)
    return stdout
  }
  writeFileSync(path("echo.json"), oneNode("echo"))
  await run("push", path("echo.json"), ...handlers)
  const submit = async (delay: string) =>
    JSON.parse(await run("submit", "echo", "--delay", delay, "--ttl", "600", "--json"))
  const due = await submit("1s")
  const other = await submit("2h")
  await run("schedule", "create", "often", "--workflow", "echo", "--every", "1s")
  await setTimeout(Math.max(0, Date.parse(due.start_at) - Date.now()) + 1500)
  // Each of them is an engine: one for another job, one for the job itself.
  await run("jobs", "cancel", other.job_id)
  await run("jobs", "describe", due.job_id, "--note", "still waits")
  const { jobs } = JSON.parse(await run("jobs", "list", "--json"))
  expect(jobs.map(({ job_id, status }: Record<string, unknown>) => [job_id, status])).toEqual([
    [other.job_id, "CANCELLED"],
    [due.job_id, "PENDING"],
  ])
  expect(JSON.parse(await run("schedule", "show", "often", "--json")).fires).toEqual([])
  expect(await run("why", due.job_id)).toMatch(/no live engine owns the job[\s\S]*umbra serve/)
  await run("schedule", "delete", "often")
  // Its time to live has not begun: an engine with the handlers completes it.
  await run("resume", ...handlers)
  expect(JSON.parse(await run("jobs", "show", due.job_id, "--json")).status).toBe("COMPLETED")
})

describe("umbra jobs beside an engine on PostgreSQL", () => {
  it("reads while the engine runs, and has it carry out commands", async () => {
    const database = await freshDatabase()
    const flags = ["--database-url", database.url]
    try {
      writeFileSync(path("long.json"), oneNode("long"))
      const engine = startUmbra(["run", path("long.json"), ...handlers, ...flags, "--json"])
      await engine.wrote(/only is running/)
      const [job] = JSON.parse((await umbra(["jobs", "list", "--json", ...flags])).stdout).jobs
      expect(job).toMatchObject({ workflow: "long", status: "PROCESSING" })
      const graph = JSON.parse((await umbra(["jobs", "graph", job.job_id, "--json", ...flags])).stdout)
      expect(graph).toMatchObject({ workflow_status: "RUNNING", nodes: [{ status: "RUNNING" }] })
      expect(await umbra(["jobs", "verify", "--all", ...flags])).toMatchObject({ code: 0 })
      expect(await umbra(["jobs", "cancel", job.job_id, ...flags])).toMatchObject({ code: 0, stderr: "" })
      const { code, stdout } = await engine.ended
      expect(code).toBe(1)
      expect(JSON.parse(stdout)).toMatchObject({ status: "CANCELLED" })
    } finally {
      await database.drop()
    }
  })

  it("J18 verify prints where a projection differs from its journal, and exits 1", async () => {
    const database = await freshDatabase()
    const flags = ["--database-url", database.url]
    const client = new pg.Client({ connectionString: database.url })
    try {
      await umbra(["run", path("echo.json"), ...handlers, ...flags])
      await client.connect()
      await client.query("update umbra.jobs set status = 'FAILED'")
      const { code, stdout } = await umbra(["jobs", "verify", "--all", ...flags])
      expect(code).toBe(1)
      expect(stdout).toMatch(/status: journal "COMPLETED", projection "FAILED"[\s\S]*1 of 1 job differ/)
    } finally {
      await client.end()
      await database.drop()
    }
  })
})

describe("a store that is not there", () => {
  it("is not made by looking at it", async () => {
    const { code, stderr } = await umbra(["jobs", "list", "--data-dir", path("nothing")])
    expect(code).toBe(2)
    expect(stderr).toMatch(/E504 there is no Umbra database in \S*nothing/)
  })
})
