/** S3: the limit on jobs that have not ended, for each owner. */
import { describe, expect, it, onTestFinished } from "vitest"
import { firstIdAt } from "../../src/engine/ids.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { Unfinished } from "../../src/server/http/unfinished.ts"
import { numbers, route } from "../pipeline/scene.ts"
import { openStage, type Stage, type StageOptions, stores } from "./stage.ts"

const approval = { name: "approval", nodes: [{ id: "ask", handler: "approval" }] }

async function stageOf(max: number, options: StageOptions = {}): Promise<Stage> {
  const stage = await openStage({ ...options, settings: { maxUnfinishedJobs: max, ...options.settings } })
  onTestFinished(() => stage.close())
  await stage.ask("/workflows", { method: "POST", body: approval })
  return stage
}

const submit = (stage: Stage, headers = {}) =>
  stage.ask("/jobs", { method: "POST", body: { workflow: "approval" }, headers })

describe("max_unfinished_jobs", () => {
  it("S3 refuses the next with 429 and Retry-After until one has ended, in whichever way", async () => {
    const store = await stores.PostgreSQL!()
    onTestFinished(() => store.remove())
    const stage = await stageOf(3, { location: store.location })
    const ids: string[] = []
    for (let n = 0; n < 3; n++) ids.push((await submit(stage)).body.job_id)
    const refused = await submit(stage)
    expect(refused).toMatchObject({ status: 429, body: { code: "E646" } })
    expect(refused.headers.get("retry-after")).toBe("1")
    await stage.umbra.cancel(ids[0]!)
    expect((await submit(stage)).status).toBe(201)
    expect((await submit(stage)).status).toBe(429)
    await stage.umbra.signal(ids[1]!, "approved")
    await stage.umbra.wait(ids[1]!)
    expect((await submit(stage)).status).toBe(201)
    expect((await submit(stage)).status).toBe(429)
  })

  it("S3 a bulk submission accepts as many as there is room for, with an answer for each", async () => {
    const stage = await stageOf(5)
    await submit(stage)
    const jobs = Array.from({ length: 20 }, () => ({ workflow: "approval" }))
    const { body, headers } = await stage.ask("/jobs/bulk", { method: "POST", body: { jobs } })
    const codes = body.results.map((each: { problem?: { code: string } }) => each.problem?.code ?? "accepted")
    expect(codes.filter((code: string) => code === "accepted")).toHaveLength(4)
    expect(codes.filter((code: string) => code === "E646")).toHaveLength(16)
    const refused = body.results.filter((each: object) => "problem" in each)
    for (const { problem } of refused) expect(problem.retry_after).toBe(1)
    expect(headers.get("retry-after")).toBe("1")
    expect(await stage.umbra.jobs({ limit: 100 })).toHaveLength(5)
  })

  it("S3 a key that was used gives its job also when there is no room", async () => {
    const stage = await stageOf(1)
    const key = { "idempotency-key": "k" }
    const first = await submit(stage, key)
    expect(first.status).toBe(201)
    expect(await submit(stage, key)).toMatchObject({ status: 200, body: { job_id: first.body.job_id } })
    const later = { "idempotency-key": "later" }
    expect((await submit(stage, later)).status).toBe(429)
    await stage.umbra.cancel(first.body.job_id)
    expect((await submit(stage, later)).status).toBe(201)
  })
})

it("S3 jobs of an earlier process, and of another one, count", async () => {
  const store = createMemoryStore()
  const engine = { beatSeconds: 0.05, leaseSeconds: 2 }
  const at = () => ({ location: openMemory(store) as never, umbra: { engine } })
  const first = await stageOf(2, at())
  await submit(first)
  const second = await stageOf(2, at())
  expect((await submit(second)).status).toBe(201)
  expect((await submit(second)).status).toBe(429)
  // What the other accepted is seen within a second, and may pass the limit until then.
  await expect.poll(async () => (await submit(first)).status).toBe(429)
})

it("S3 each owner has a limit of its own", async () => {
  const stage = await openStage({ withTokens: true, settings: { maxUnfinishedJobs: 1 } })
  onTestFinished(() => stage.close())
  for (const owner of ["a", "b"]) {
    const token = await stage.token(owner, "admin")
    await stage.ask("/workflows", { method: "POST", body: approval, token })
    const ask = () => stage.ask("/jobs", { method: "POST", body: { workflow: "approval" }, token })
    expect([(await ask()).status, (await ask()).status]).toEqual([201, 429])
  }
})

it("S3 a job that a pipeline submits waits for room without spending a try, and counts for the token", async () => {
  const stage = await openStage({
    withTokens: true,
    settings: { maxUnfinishedJobs: 2 },
    umbra: { adapters: [numbers] },
  })
  onTestFinished(() => stage.close())
  const token = await stage.token("a", "admin")
  const post = (path: string, body: unknown) => stage.ask(path, { method: "POST", body, token })
  await post("/workflows", approval)
  await post("/workflows", {
    name: "starts",
    init: { body: { count: 2 } },
    routes: [
      route("source", ["numbers"], { outbound: "start" }),
      route("start", [{ type: "submit_job", config: { workflow: "approval" } }]),
    ],
  })
  // The execution is one of the two jobs that may be unfinished.
  const { job_id } = (await post("/jobs", { workflow: "starts" })).body
  const approvals = () => stage.umbra.jobs({ owner: "a", workflow: "approval" })
  await expect.poll(approvals).toHaveLength(1)
  expect((await post("/jobs", { workflow: "approval" })).status).toBe(429)
  const [first] = await approvals()
  const [{ id }] = (await stage.ask("/tokens", { token })).body.tokens
  const counted = { owner: "a", submittedBy: `token ${id}`, known: [], after: firstIdAt(0), limit: 10 }
  expect((await stage.umbra.unfinishedJobs(counted)).toSorted()).toEqual([job_id, first!.job_id].toSorted())
  await stage.umbra.signal(first!.job_id, "approved")
  const { status, output } = await stage.umbra.wait(job_id)
  expect(status).toBe("COMPLETED")
  expect(output).toMatchObject({ routes: { start: { done: 2, failed_tries: 0 } } })
  const [ended, second] = (await approvals()).toSorted(byCreation)
  expect(Date.parse(second!.created_at)).toBeGreaterThanOrEqual(Date.parse(ended!.finished_at!))
})

const byCreation = (a: { readonly created_at: string }, b: { readonly created_at: string }) =>
  a.created_at.localeCompare(b.created_at)

describe("the count", () => {
  const setup = (max: number) => {
    const open = new Set<string>()
    let [looks, now] = [0, 1_000_000]
    const look = async ({ known, limit }: { known: readonly string[]; limit: number }) => {
      looks++
      await Promise.resolve()
      return [...new Set([...known.filter(id => open.has(id)), ...[...open].slice(-limit)])]
    }
    const unfinished = new Unfinished({ look, now: () => now })
    const admit = (id: string, store = async () => void open.add(id)) =>
      unfinished.admit([{ owner: "o", max }], id, store)
    return {
      open,
      admit,
      looks: () => looks,
      pass: (ms: number) => {
        now += ms
      },
    }
  }

  it("a thousand at once cost one or two queries, and no more are accepted than allowed", async () => {
    const { admit, open, looks } = setup(10)
    const all = await Promise.allSettled(Array.from({ length: 1000 }, (_, n) => admit(`job ${n}`)))
    expect(all.filter(({ status }) => status === "fulfilled")).toHaveLength(10)
    expect(open.size).toBe(10)
    expect(looks()).toBeLessThan(5)
  })

  it("a job that could not be stored gives its place back", async () => {
    const { admit, pass } = setup(1)
    const failing = admit("a", () => Promise.reject(new Error("no")))
    await expect(failing).rejects.toThrow("no")
    await admit("b")
    await expect(admit("c")).rejects.toMatchObject({ code: "E646" })
    pass(10_000)
    await expect(admit("c")).rejects.toMatchObject({ code: "E646" })
  })

  it("jobs that ended do not pile up in memory", async () => {
    const { admit, open, looks } = setup(100)
    for (let n = 0; n < 1000; n++) {
      await admit(`job ${n}`)
      open.clear()
    }
    expect(looks()).toBeLessThan(20)
  })

  it("a job of another process whose id is old, since it waited for room, is seen within a minute", async () => {
    let [isThere, now] = [false, 1_000_000]
    const old = firstIdAt(1_000)
    const look = async ({ after }: { after: string }) => (isThere && after < old ? [old] : [])
    const unfinished = new Unfinished({ look, now: () => now })
    const admit = (id: string) => unfinished.admit([{ owner: "o", max: 1 }], id, async () => {})
    await admit("a")
    isThere = true
    now += 60_000
    await expect(admit("b")).rejects.toMatchObject({ code: "E646" })
  })
})
