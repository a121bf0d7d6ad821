/** `GET /waits`: what unfinished jobs wait for, grouped by cause; with the client, the reader of a store, and between owners. */
import pc from "picocolors"
import { expect, it, onTestFinished } from "vitest"
import { waitLines } from "../../src/cli/commands/why.ts"
import { connect } from "../../src/client/index.ts"
import { jobHasEnded } from "../../src/core/states.ts"
import { waitPage } from "../../src/jobs/why/waits.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { adapter, route } from "../pipeline/scene.ts"
import { openStage } from "./stage.ts"

/** A promise that `open` fulfils. */
function gate() {
  let open = () => {}
  const promise = new Promise<void>(resolve => {
    open = resolve
  })
  return { promise, open }
}

const approval = defineHandler({ name: "approval", run: () => waitForSignal("approved") })
const review = {
  name: "review",
  nodes: [
    { id: "ask", handler: "approval" },
    { id: "legal", handler: "approval" },
    { id: "send", handler: "transform", dependencies: ["ask", "legal"], config: { value: 1 } },
  ],
}
const parent = {
  name: "parent",
  nodes: [{ id: "child", handler: "workflow", config: { workflow: "review" } }],
}

it("groups nodes of many jobs by cause, for the owner of the jobs alone", async () => {
  const stage = await openStage({ withTokens: true, umbra: { handlers: [approval] } })
  onTestFinished(() => stage.close())
  const [mine, theirs] = [await stage.token("ada", "read"), await stage.token("bob", "read")]
  const start = async (definition: object, owner = "ada") =>
    (await stage.umbra.accept(definition as never, {}, { owner })).jobId
  const first = await start(review)
  const others = [await start(review), await start(review)]
  await start(review, "bob")
  const held = { ...review, name: "held" }
  await stage.umbra.register(held as never, "ada")
  await stage.umbra.pauseWorkflow("held", { owner: "ada", reason: "not today" })
  await start(held)
  const ask = (path: string, token = mine) => stage.ask(path, { token })
  const kinds = async () => {
    const { body } = await ask("/waits")
    return body.groups.map((group: { kind: string; nodes: number }) => `${group.kind} ${group.nodes}`)
  }
  await expect.poll(kinds).toEqual(["signal 6", "paused 2"])
  const { body } = await ask("/waits")
  expect(body).toMatchObject({ jobs: 4, running: 0, complete: true, next: null, scanned_to: null })
  const [signals] = body.groups
  expect(signals).toMatchObject({ subject: "approved", jobs: 3, usual: null, until: null })
  const examples: { readonly job_id: string; readonly since: string }[] = signals.examples
  expect(examples.map(({ job_id }) => job_id).sort()).toEqual([first, ...others].sort())
  const order = examples.map(({ since, job_id }) => `${since} ${job_id}`)
  expect(order).toEqual(order.toSorted())
  expect(signals.examples[0]).toMatchObject({
    workflow: "review",
    node: "ask",
    item: null,
    since: signals.since,
  })
  expect(signals.action).toContain("umbra jobs signal")

  expect((await ask("/waits", theirs)).body).toMatchObject({ jobs: 1, groups: [{ jobs: 1, nodes: 2 }] })
  expect((await ask("/waits?workflow=held")).body).toMatchObject({ jobs: 1, groups: [{ kind: "paused" }] })
  expect((await ask("/waits?workflow=review@latest")).body).toMatchObject({ code: "E309" })
  for (const wrong of ["/waits?after=x", "/waits?from=2026-11-15T00:00:00Z"])
    expect((await ask(wrong)).body, wrong).toMatchObject({ status: 400, code: "E633" })

  const client = connect({ url: stage.server.url, token: mine })
  expect(await client.waits({ workflow: "review" })).toMatchObject({ jobs: 3 })
  expect(await stage.umbra.waits({ owner: "bob" })).toMatchObject({ jobs: 1 })
  const lines = waitLines(await client.waits({ workflow: "review" }), "", {
    paint: pc.createColors(false),
    columns: 100,
  })
  expect(lines[0]).toBe(`signal approved: 6 nodes of 3 jobs, since ${signals.since}`)
  expect(lines.at(-1)).toBe(`  for example ${examples[0]!.job_id}, node ask`)
})

it("lists the longest wait first, and of equal ones the older job", async () => {
  const reason = { kind: "signal", count: 1, nodes: ["a"], details: { name: "go" }, until: null }
  const since: Record<string, string | null> = { 1: "10:00", 2: "10:00", 3: null, 4: "09:00", 5: "10:00" }
  const jobs = Object.keys(since).map(job_id => ({ job_id, workflow: "w" }))
  const view = (job_id: string) => ({ job_id, reasons: [{ ...reason, since: since[job_id] }] })
  for (const listed of [jobs, jobs.toReversed()]) {
    const queries = { jobPage: async () => ({ jobs: listed, next: null }) }
    const why = async (id: string) => view(id)
    const { groups } = await waitPage({ queries, now: () => 0, why } as never, {})
    expect(groups[0]!.examples.map(({ job_id }) => job_id)).toEqual(["4", "1", "2", "5", "3"])
  }
})

it("counts a child job by its own cause, and not its parent", async () => {
  const stage = await openStage({ umbra: { handlers: [approval] } })
  onTestFinished(() => stage.close())
  await stage.umbra.register(review as never)
  await stage.umbra.submit(parent as never)
  await expect
    .poll(async () => (await stage.umbra.waits()).groups)
    .toMatchObject([{ kind: "signal", jobs: 1, nodes: 2, examples: [{ workflow: "review" }] }])
  expect(await stage.umbra.waits()).toMatchObject({ jobs: 2 })
})

it("counts items of for_each by what each of them waits for, also while others run", async () => {
  const held = gate()
  const picky = defineHandler({
    name: "picky",
    run: config =>
      (config as { n: number }).n === 0 ? held.promise.then(() => 1) : waitForSignal("checked"),
  })
  const stage = await openStage({ umbra: { handlers: [approval, picky] } })
  onTestFinished(async () => {
    held.open()
    await stage.close()
  })
  const list = (handler: string) => ({
    name: handler,
    nodes: [{ id: "each", handler, for_each: "{{ [0, 1, 2] }}", config: { n: "{{ item }}" } }],
  })
  const asked = (await stage.umbra.submit(list("approval") as never)).id
  const mixed = (await stage.umbra.submit(list("picky") as never)).id
  const groups = async () => (await stage.umbra.waits()).groups
  const first = (jobId: string, item: number) => [{ job_id: jobId, node: "each", item }]
  await expect.poll(groups).toMatchObject([
    { kind: "signal", subject: "approved", nodes: 3, jobs: 1, examples: first(asked, 0) },
    { kind: "signal", subject: "checked", nodes: 2, jobs: 1, examples: first(mixed, 1) },
  ])
  expect((await groups())[0]!.since).not.toBeNull()
  const { body } = await stage.ask("/waits")
  expect(body.groups[0].examples[0].item).toBe(0)
  const lines = waitLines(await connect({ url: stage.server.url }).waits(), "", {
    paint: pc.createColors(false),
    columns: 100,
  })
  expect(lines).toContain(`  for example ${asked}, node each, item 0`)
  // The item that has got its signal waits no more.
  await stage.umbra.signal(asked, "approved", {})
  await expect
    .poll(async () => (await groups()).find(({ subject }) => subject === "approved"))
    .toMatchObject({ nodes: 2, examples: [{ item: 1 }] })
})

it("reaches every unfinished job once, over pages of bounded work", async () => {
  const stage = await openStage({ umbra: { handlers: [approval] } })
  onTestFinished(() => stage.close())
  await stage.umbra.register(review as never)
  const ids = new Set<string>()
  for (let n = 0; n < 230; n++) ids.add((await stage.umbra.submit("review", {})).id)
  const ended = [...ids][40]!
  await stage.umbra.cancel(ended, "enough")
  await expect.poll(async () => jobHasEnded((await stage.umbra.job(ended)).status)).toBe(true)
  let [jobs, nodes, pages] = [0, 0, 0]
  for (let after: string | undefined; ; ) {
    const page = await stage.umbra.waits({ after })
    jobs += page.jobs
    nodes += page.groups.reduce((sum, group) => sum + group.nodes, 0)
    pages++
    expect(page.jobs).toBeLessThan(220)
    expect(page.complete).toBe(page.next === null)
    if (page.next === null) break
    expect(page.scanned_to).not.toBeNull()
    after = page.next
  }
  expect({ jobs, nodes }).toEqual({ jobs: 229, nodes: 458 })
  expect(pages).toBeGreaterThan(1)
})

it("shows an open breaker by its route", async () => {
  const call = adapter("call", () => {
    throw new Error("the service does not answer")
  })
  const stage = await openStage({ umbra: { adapters: [call] } })
  onTestFinished(() => stage.close())
  const breaker = { min_calls: 1, open_seconds: 3600 }
  const { id } = await stage.umbra.submit({
    name: "flow",
    init: [{ body: 1 }, { body: 2 }, { body: 3 }],
    routes: [route("fetch", ["call"], { error_handling: { retries: 5, circuit_breaker: breaker } })],
  } as never)
  await expect
    .poll(async () => (await stage.ask("/waits")).body.groups)
    .toMatchObject([
      {
        kind: "breaker",
        subject: "fetch",
        jobs: 1,
        examples: [{ job_id: id, workflow: "flow", node: "fetch" }],
      },
    ])
})
