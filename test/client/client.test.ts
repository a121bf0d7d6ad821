/** The client against the real server. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { z } from "zod"
import { connect, type UmbraClient } from "../../src/client/index.ts"
import { text, workflow } from "../../src/definition/typed/builder.ts"
import { openStage, type Stage } from "../server/stage.ts"

const greeting = workflow("greeting", { input: z.object({ name: z.string() }) }, flow => {
  const greeted = flow.transform("greeted", { text: text`Hello ${flow.input.name}` })
  return { message: greeted.output.text }
})
const approval = { name: "approval", nodes: [{ id: "ask", handler: "approval" }] }
const broken = { name: "broken", nodes: [{ id: "b", handler: "broken", retry: { max_attempts: 1 } }] }

async function all<T>(found: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const one of found) list.push(one)
  return list
}

describe("the client", () => {
  let stage: Stage
  let umbra: UmbraClient
  beforeAll(async () => {
    stage = await openStage({ withTokens: true })
    umbra = connect({ url: stage.server.url, token: await stage.token("ada", "admin") })
  })
  afterAll(() => stage?.close())

  it("submits a builder's workflow, which it stores first, and waits for its typed output", async () => {
    const job = await umbra.submit(greeting, { name: "Ada" })
    const { status, output, workflow_version } = await job.wait()
    expect({ status, message: output.message, workflow_version }).toEqual({
      status: "COMPLETED",
      message: "Hello Ada",
      workflow_version: 1,
    })
  })

  it("starts jobs later, one or many, and moves their start", async () => {
    const startAt = new Date(Date.now() + 3_600_000)
    const job = await umbra.submit(greeting, { name: "Ada" }, { startAt })
    expect(await job.status()).toMatchObject({ status: "PENDING", start_at: startAt.toISOString() })
    const [many] = await umbra.submitMany(greeting, [{ name: "Ada" }], { delaySeconds: 3600 })
    expect(await many!.job!.status()).toMatchObject({ status: "PENDING" })
    const moved = await many!.job!.reschedule({ startAt: startAt.toISOString() })
    expect(moved).toMatchObject({ status: "PENDING", start_at: startAt.toISOString() })
    for await (const event of umbra.stream(job.id)) {
      expect(event).toMatchObject({ type: "snapshot", data: { job: { start_at: startAt.toISOString() } } })
      break
    }
    const never = { startAt: new Date(Number.NaN) }
    await expect(job.reschedule(never)).rejects.toMatchObject({ name: "UmbraClientError", code: "E633" })
    await many!.job!.delete()
    await job.reschedule({ delaySeconds: 0 })
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    await expect(umbra.submit(greeting, { name: "Ada" }, { delaySeconds: 1, startAt })).rejects.toMatchObject(
      {
        code: "E309",
      },
    )
  })

  it("gives the same job for the same key", async () => {
    const [first, second] = await Promise.all(
      ["", ""].map(() => umbra.submit(greeting, { name: "Ada" }, { idempotencyKey: "once" })),
    )
    expect(second!.id).toBe(first!.id)
    expect(await umbra.accept(greeting, { name: "Ada" }, { idempotencyKey: "once" })).toMatchObject({
      is_new: false,
    })
  })

  it("reports every problem of an input and of a workflow", async () => {
    await expect(umbra.submit("greeting", { name: 1 })).rejects.toMatchObject({ code: "E304", status: 422 })
    const wrong = {
      name: "x",
      nodes: [
        { id: "a", handler: "nope" },
        { id: "a", handler: "nope" },
      ],
    }
    const error = await umbra.workflows.validate(wrong).catch(thrown => thrown)
    expect(error).toMatchObject({ status: 422, name: "UmbraClientError" })
    expect(error.problems.length).toBeGreaterThan(1)
    expect(error.message).toMatch(/problem.*\n {2}E103 nodes\[0\]\.handler: There is no handler "nope"/)
    const valid = "name: y\nnodes: [{ id: a, handler: input }]"
    expect(await umbra.workflows.validate(valid)).toEqual({
      ...{ valid: true, name: "y", hash: expect.any(String), nodes: 1, routes: 0 },
    })
    expect((await umbra.workflows.validate(valid, { graph: true })).graph?.nodes).toMatchObject([
      { id: "a", handler: "input", depends_on: [] },
    ])
  })

  it("commands a job: signal, cancel, retry, delete", async () => {
    const waiting = await umbra.submit(approval)
    await expect(waiting.signal("approved", null, { resumeToken: "r7" })).rejects.toMatchObject({
      code: "E312",
    })
    const { resume_token: resumeToken } = await waiting.graph()
    await waiting.signal("approved", { by: "Ada" }, { resumeToken })
    expect((await waiting.wait()).status).toBe("COMPLETED")
    expect((await waiting.node("ask")).output).toEqual({ by: "Ada" })
    expect((await waiting.graph()).nodes[0]).toMatchObject({ id: "ask", status: "COMPLETED" })
    expect((await waiting.events()).at(-1)).toMatchObject({ type: "job.completed" })
    await waiting.delete()
    expect((await waiting.status()).status).toBe("DELETED")

    const cancelled = await umbra.submit(approval)
    expect(await cancelled.cancel("enough")).toMatchObject({ status: "CANCELLED" })
    await expect(cancelled.cancel()).rejects.toMatchObject({ code: "E302", status: 409 })
    await cancelled.retry()
    expect((await cancelled.wait({ timeoutMs: 10 })).finished_at).toBeNull()

    expect(await (await umbra.submit(broken)).wait()).toMatchObject({
      status: "FAILED",
      error: { code: "E401", node: "b" },
    })
  })

  it("lists jobs page after page, filtered", async () => {
    for (let i = 0; i < 7; i++)
      await umbra.submit(greeting, { name: `n${i}` }, { labels: { run: "pages", n: String(i) } })
    const jobs = await all(umbra.jobs({ labels: { run: "pages" }, limit: 3 }))
    expect(jobs.map(({ labels }) => labels.n)).toEqual(["6", "5", "4", "3", "2", "1", "0"])
    expect(await all(umbra.jobs({ labels: { run: "none" } }))).toEqual([])
    const page = await umbra.jobPage({ labels: { run: "pages" }, limit: 3 })
    expect(page.next).toBe(page.jobs[2]!.job_id)
    const created = Date.parse(jobs[3]!.created_at)
    expect(await all(umbra.jobs({ labels: { run: "pages" }, createdBefore: created - 60_000 }))).toEqual([])
  })

  it("J20 pushes versions, compares them, moves aliases and lists their history", async () => {
    const { workflows } = umbra
    const version = (value: number) => ({
      name: "counted",
      nodes: [{ id: "n", handler: "transform", config: { value } }],
    })
    expect(await workflows.push(version(1))).toMatchObject({ version: 1, unchanged: false })
    expect(await workflows.push(version(1))).toMatchObject({ version: 1, unchanged: true })
    expect(await workflows.push(version(2))).toMatchObject({ version: 2 })
    expect((await all(workflows.versions("counted", { pageSize: 1 }))).map(v => v.version)).toEqual([2, 1])
    expect(await workflows.diff("counted", { from: 1, to: 2 })).toMatchObject({
      nodes_changed: [{ id: "n", keys: ["config"] }],
    })
    await workflows.setAlias("counted", "stable", 1)
    expect(await workflows.setAlias("counted", "stable", { 1: 90, 2: 10 })).toMatchObject({
      weights: { 1: 90, 2: 10 },
    })
    expect((await workflows.aliasHistory("counted", "stable")).map(({ to }) => to)).toEqual([
      { 1: 90, 2: 10 },
      { 1: 1 },
    ])
    expect((await workflows.get("counted")).aliases).toHaveLength(1)
    expect((await workflows.get("counted", { version: 1 })).definition).toMatchObject({ name: "counted" })
    expect((await all(workflows.list({ pageSize: 2 }))).map(({ name }) => name)).toContain("counted")
    await workflows.delete("counted")
    await expect(workflows.get("counted")).rejects.toMatchObject({ code: "E305", status: 404 })
  })

  it("S3 is refused without a good token", async () => {
    const { url } = stage.server
    await expect(connect({ url }).job("x")).rejects.toMatchObject({ code: "E630", status: 401 })
    const reader = connect({ url, token: await stage.token("ada", "read") })
    await expect(reader.submit("greeting", { name: "x" })).rejects.toMatchObject({
      code: "E631",
      status: 403,
    })
  })

  it("knows the server's release", async () => {
    expect(await umbra.version()).toBe("0.0.0")
  })
})
