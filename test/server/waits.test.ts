/** `GET /waits`: what unfinished jobs wait for, grouped by cause; with the client, the reader of a store, and between owners. */
import pc from "picocolors"
import { expect, it, onTestFinished } from "vitest"
import { waitLines } from "../../src/cli/commands/why.ts"
import { connect } from "../../src/client/index.ts"
import { jobHasEnded } from "../../src/core/states.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { adapter, route } from "../pipeline/scene.ts"
import { openStage } from "./stage.ts"

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
  expect(signals.examples.map((example: { job_id: string }) => example.job_id)).toEqual([first, ...others])
  expect(signals.examples[0]).toMatchObject({ workflow: "review", node: "ask", since: signals.since })
  expect(signals.action).toContain("umbra jobs signal")

  expect((await ask("/waits", theirs)).body).toMatchObject({ jobs: 1, groups: [{ jobs: 1, nodes: 2 }] })
  expect((await ask("/waits?workflow=held")).body).toMatchObject({ jobs: 1, groups: [{ kind: "paused" }] })
  expect((await ask("/waits?workflow=review@latest")).body).toMatchObject({ code: "E309" })
  for (const wrong of ["/waits?after=x", "/waits?from=2026-11-15T00:00:00Z"])
    expect((await ask(wrong)).body, wrong).toMatchObject({ status: 400, code: "E633" })

  const client = connect({ url: stage.server.url, token: mine })
  expect(await client.waits({ workflow: "review" })).toMatchObject({ jobs: 3 })
  expect(await stage.umbra.waits({ owner: "bob" })).toMatchObject({ jobs: 1 })
  const lines = waitLines(await client.waits({ workflow: "review" }), "", pc.createColors(false))
  expect(lines[0]).toBe(`signal approved: 6 nodes of 3 jobs, since ${signals.since}`)
  expect(lines.at(-1)).toBe(`  for example ${first}, node ask`)
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
