/**
 * Recorded: large things of one owner, and requests that read, compare, preview or follow them. All are answered; none may
 * hold up the event loop.
 */
import { jobHasEnded } from "../../../src/core/states.ts"
import type { Probed, Sent } from "./probed.ts"

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)
const transform = (id: string, value: unknown) => ({ id, handler: "transform", config: { value } })
const nodes = (count: number, value: (i: number) => unknown) =>
  numbers(count).map(i => transform(`n${i}`, value(i)))
const failing = {
  type: "transform",
  config: { value: "{{ message.missing.field }}" },
}
const error_handling = { retries: 0, circuit_breaker: false }

const LARGE = 20_000

/** A handler that logs as much as an attempt may. */
export const loggingHandlers = `
export default [{
  name: "talks",
  run(config, ctx) {
    for (let n = 0; n < config.lines; n++) ctx.log.info({}, config.text.repeat(config.times))
    return null
  },
}]
`

const workflows = [
  { name: "large", nodes: nodes(LARGE, i => i) },
  { name: "own", nodes: [{ id: "a", handler: "input" }] },
  { name: "range", nodes: [transform("list", "{{ range(input.from, input.from + 250000) }}")] },
  { name: "readers", nodes: nodes(2000, () => "{{ input.list | length }}") },
  {
    name: "waits",
    nodes: [
      {
        id: "a",
        handler: "wait_for_signal",
        config: {
          signal: "go",
          schema: { items: { pattern: "^(a+)+$" }, uniqueItems: true },
        },
      },
    ],
  },
  { name: "crowd", nodes: nodes(3000, () => "{{ a }}").map(node => ({ ...node, dependencies: ["a"] })) },
  { name: "fails", nodes: [transform("a", "{{ input.missing.field }}")] },
  { name: "items", nodes: [{ ...transform("each", "{{ item }}"), for_each: "{{ range(20000) }}" }] },
  {
    name: "flow",
    init: { body: { list: "{{ input.list }}" } },
    routes: [
      {
        name: "split",
        inbound: "a",
        outbound: "b",
        adapters: [{ type: "split", config: { items: "{{ message.list }}" } }],
      },
      { name: "fail", inbound: "b", adapters: [failing], error_handling },
    ],
  },
  {
    name: "talk",
    nodes: numbers(40).map(i => ({
      id: `n${i}`,
      handler: "talks",
      config: { lines: 16, text: "\\u0001ab", times: 8000 },
    })),
  },
].map(workflow =>
  workflow.name === "crowd"
    ? {
        ...workflow,
        nodes: [{ id: "a", handler: "wait_for_signal", config: { signal: "go" } }, ...workflow.nodes!],
      }
    : workflow,
)

/** Stores the workflows, and runs jobs of them. */
export async function prepare({ post, send }: Probed): Promise<Readonly<Record<string, string>>> {
  for (const workflow of workflows) await post("/workflows", workflow)
  const [, ...rest] = workflows[0]!.nodes!
  await post("/workflows", { name: "large", nodes: [transform("n0", "other"), ...rest] })
  const begin = async (workflow: string, input: unknown, wait: number): Promise<string> =>
    (await post(`/jobs?wait=${wait}`, { workflow, input })).job_id
  /** To its end, however slow the machine is. */
  const run = async (workflow: string, input: unknown = {}): Promise<string> => {
    const id = await begin(workflow, input, 60)
    const status = async () =>
      JSON.parse((await send({ method: "GET", path: `/jobs/${id}?wait=60` })).text).status
    while (!jobHasEnded(await status()));
    return id
  }
  const list = numbers(150_000)
  const other = list.toSpliced(75_000, 1, -1)
  for (let n = 0; n < 20; n++) await post("/jobs", { workflow: "crowd", input: {} })
  await post("/jobs/bulk", { jobs: Array(1000).fill({ workflow: "fails", input: { a: 1 } }) })
  const text = `x"${"[[],[]],".repeat(100)}`
  const rare = { cron: "0 0 29 2 mon", zone: "Antarctica/Troll" }
  await post("/schedules/rare", { workflow: "own", ...rare }, "PUT")
  const templates = { list: Array(2000).fill("{{ schedule.time }}") }
  for (let n = 0; n < 60; n++)
    await post(`/schedules/s${n}`, { workflow: "own", every: "100000d", input: templates }, "PUT")
  const talk = await run("talk")
  return {
    TALK: talk,
    LARGE: await run("large@1"),
    LARGE2: await run("large@2"),
    LIST: await run("own", list),
    LIST2: await run("own", other),
    KEYS: await run("own", Object.fromEntries(numbers(15_000).map(i => [`k${i}`, i]))),
    KEYS2: await run("own", Object.fromEntries(numbers(15_000).map(i => [`k${i}`, -i]))),
    RANGE: await run("range", { from: 0 }),
    RANGE2: await run("range", { from: 7 }),
    READERS: await run("readers", { list }),
    ITEMS: await run("items"),
    WAITS: await begin("waits", {}, 1),
    CROWD: await begin("crowd", {}, 1),
    FLOW: await run("flow", { list: Array(100).fill(numbers(1500)) }),
    TEXTS: await run("flow", { list: Array(100).fill(text) }),
  }
}

export interface Reading extends Sent {
  readonly status: number | readonly number[]
}

const get = (path: string, status: Reading["status"] = 200): Reading => ({ method: "GET", path, status })
const post = (path: string, body: unknown, status: Reading["status"] = 200): Reading => ({
  path,
  body: JSON.stringify(body),
  status,
})
const put = (path: string, body: unknown, status: Reading["status"]): Reading => ({
  ...post(path, body, status),
  method: "PUT",
})
const nested = (depth: number): unknown => (depth === 0 ? {} : { a: nested(depth - 1) })
const range = "from=1970-01-01T00:00:00Z&to=9998-12-30T00:00:00Z"
const manyNodes = { name: "large", nodes: nodes(LARGE, i => -i) }
const signalSchema = (schema: unknown) => ({
  name: "signal",
  nodes: [{ id: "a", handler: "wait_for_signal", config: { signal: "go", schema } }],
})
const words = numbers(300)
  .map(i => String.fromCharCode(97 + (i % 26), 98 + ((i >> 2) % 20)))
  .join(" ")

const jobs: readonly Reading[] = [
  ...["LARGE", "ITEMS", "CROWD", "FLOW", "RANGE", "LIST", "KEYS"].flatMap(job => [
    get(`/jobs/${job}`),
    get(`/jobs/${job}/graph`),
    get(`/jobs/${job}/graph?at=%2310`, [200, 404]),
    get(`/jobs/${job}/facts?limit=1000`),
    get(`/jobs/${job}/events?limit=10000`),
    get(`/jobs/${job}/why`),
    get(`/jobs/${job}/logs?limit=1000`),
    get(`/jobs/${job}/logs?limit=1000&level=error`),
    get(`/jobs/${job}/compiled-graph?definition=true`),
    get(`/jobs/${job}/report?payloads=full`, [200, 413, 422]),
  ]),
  get("/jobs/RANGE/nodes/list"),
  get("/jobs/RANGE/nodes/list/config"),
  get("/jobs/ITEMS/nodes/each"),
  get("/jobs/ITEMS/nodes/each/items?limit=1000"),
  get("/jobs/ITEMS/nodes/each/config?item=19999"),
  get("/jobs/READERS/nodes/n1999/config"),
  get("/jobs/TALK/logs?limit=1000"),
  get("/jobs/TALK/logs?limit=1000&node=n39&level=info"),
  get("/jobs?limit=1000"),
  get("/jobs?limit=1000&status=FAILED"),
  get(`/jobs?limit=1000&error_text=${encodeURIComponent(words)}`),
  get("/jobs?limit=1000&error_text=missing"),
  get("/jobs/durations?points=2000"),
  get("/failures"),
  get("/waits"),
  get("/waits?workflow=crowd"),
  get("/executions?limit=100"),
  get("/executions?limit=100&dead_letters=true"),
  get("/workflows?limit=1000"),
  get("/workflows/large"),
  get("/workflows/large/versions/1/graph"),
  get("/workflows/large/diff?from=1&to=2"),
  get("/workflows/large/stats?from=1970-01-01T00:00:00Z"),
]

const comparisons: readonly Reading[] = [
  ["LARGE", "LARGE2"],
  ["LARGE", "LARGE"],
  ["LIST", "LIST2"],
  ["KEYS", "KEYS2"],
  ["LIST", "KEYS"],
  ["READERS", "LARGE"],
  ["ITEMS", "LARGE"],
].map(([a, b]) => get(`/jobs/compare?a=${a}&b=${b}&diff=input`))

const pipelines: readonly Reading[] = ["FLOW", "TEXTS"].flatMap(job => [
  get(`/jobs/${job}/dead-letters?limit=100`),
  get(`/jobs/${job}/lineage?message=split:1&limit=1000`),
  get(`/jobs/${job}/lineage?message=fail:100&limit=1000&direction=inputs`),
])

const forks: readonly Reading[] = [
  post("/jobs/READERS/fork", { dry_run: true, input: { list: numbers(150_001) } }),
  post("/jobs/READERS/fork", { dry_run: true, input: { list: numbers(150_000).reverse() } }),
  post("/jobs/LARGE/fork", { dry_run: true, workflow: manyNodes }),
  post("/jobs/LARGE/fork", { dry_run: true, workflow: "large@2" }),
  post("/jobs/LARGE/fork", { dry_run: true, from: numbers(LARGE).map(i => `n${i}`) }),
  post("/jobs/LARGE/fork", {
    dry_run: true,
    overrides: Object.fromEntries(numbers(9000).map(i => [`n${i}`, { output: i }])),
  }),
  post("/jobs/ITEMS/fork", { dry_run: true, items: { each: numbers(LARGE) } }),
  post("/jobs/LIST/fork", { dry_run: true, input: numbers(150_000) }),
  post("/bulk", {
    verb: "fork",
    dry_run: true,
    filter: { workflow: "large" },
    fork: { workflow: manyNodes },
  }),
]

const documents: readonly Reading[] = [
  post("/workflows/validate?graph=true&definition=true", manyNodes),
  post("/workflows/validate", signalSchema({ enum: numbers(200_000) }), [200, 422]),
  post("/workflows/validate", signalSchema({ enum: numbers(20_000).map(i => `s${i}`) }), [200, 422]),
  post(
    "/workflows/validate",
    signalSchema({ properties: Object.fromEntries(numbers(9000).map(i => [`k${i}`, { pattern: "^a+$" }])) }),
    [200, 422],
  ),
  post("/workflows/validate", {
    name: "many",
    nodes: numbers(400).map(i => ({
      id: `n${i}`,
      handler: "wait_for_signal",
      config: { signal: "go", schema: { enum: numbers(500) } },
    })),
  }),
]

const signals: readonly Reading[] = [
  post("/jobs/WAITS/signals/go", Array(90_000).fill("a"), [422, 503]),
  post(
    "/jobs/WAITS/signals/go",
    numbers(90_000).map(i => `${"a".repeat(20)}${i}`),
    [422, 503],
  ),
  post("/jobs/WAITS/signals/go", [`${"a".repeat(1_000_000)}!`], [422, 503]),
  post("/jobs/WAITS/signals/go", Array(100_000).fill(null), [422, 503]),
]

const schedules: readonly Reading[] = [
  ...[
    { cron: "0 0 30 2 *" },
    { cron: "* * * * * *", zone: "Antarctica/Troll" },
    { cron: "0 0 29 2 mon", zone: "Antarctica/Troll" },
    { cron: "* * 29 2 mon", zone: "Africa/Monrovia", start: "0001-01-01T00:00:00Z" },
    { cron: "* * 29 2 mon", zone: "Asia/Manila", start: "9998-01-01T00:00:00Z" },
    { cron: `${"0,".repeat(140)}0 0 29 2 0` },
    { cron: `*/1${"1".repeat(280)} * * * *` },
    { every: "1s", jitter_seconds: 86_400 },
    { every: "1h", input: nested(60) },
    { every: "1h", input: nested(195) },
    { every: "1h", input: numbers(190_000) },
    { every: "1h", input: Array(3000).fill("{{ schedule.time }}") },
    { every: "1h", input: Array(1000).fill("{{ 'a' * 1000000 }}") },
    { every: "1h", input: `{{ ${"(".repeat(9000)} }}` },
    { every: "1h", input: `{{ ${"[".repeat(150)}1${"]".repeat(150)} }}` },
    { every: "1h", labels: Object.fromEntries(numbers(9000).map(i => [`k${i}`, "v"])) },
  ].map(body => post("/schedules/preview", body, [200, 400, 422])),
  put("/schedules/hostile", { workflow: "own", every: "100000d", input: "{{ 'a' * 4000000 }}" }, [200, 201]),
  post("/schedules/hostile/run", {}, 201),
  put(
    "/schedules/hostile",
    { workflow: "own", every: "100000d", input: Array(2500).fill("{{ range(300) }}") },
    [200, 201],
  ),
  post("/schedules/hostile/run", {}, [201, 400, 422]),
  get("/schedules?limit=1000&fires=20"),
  get("/schedules/rare"),
  get(`/schedules/rare/ticks?${range}&limit=1000`),
  get("/schedules/rare/fires?limit=1000"),
  post("/schedules/rare/backfill", {
    dry_run: true,
    from: "1970-01-01T00:00:00Z",
    to: "2026-01-01T00:00:00Z",
  }),
  post(
    "/schedules/s1/backfill",
    { dry_run: true, from: "0001-01-01T00:00:00Z", to: "2026-01-01T00:00:00Z" },
    [200, 400, 422],
  ),
]

const others: readonly Reading[] = [
  { ...post("/jobs/LIST", { note: "x".repeat(1_000_000) }, [400, 413, 422]), method: "PATCH" },
  {
    ...post("/jobs/LIST", { labels: Object.fromEntries(numbers(9000).map(i => [`k${i}`, "v"])) }, [400, 422]),
    method: "PATCH",
  },
  post(
    "/jobs/FLOW/dead-letters/replay",
    { bodies: Object.fromEntries(numbers(900).map(i => [`fail:${i + 1000}`, numbers(100)])) },
    [400, 404, 409, 422],
  ),
  post("/jobs/FLOW/dead-letters/replay", { bodies: { "fail:1": numbers(190_000) } }, [201, 409, 422]),
]

/** Capital words in the paths stand for the jobs of `prepare`. */
export const readings: readonly Reading[] = [
  ...schedules,
  ...documents,
  ...comparisons,
  ...forks,
  ...pipelines,
  ...signals,
  ...jobs,
  ...others,
]
