import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest"
import { defineHandler } from "../../src/worker/handler.ts"
import { openStage, type Stage, stores } from "./stage.ts"

const SECRET = "the-real-secret-value"

const handlers = [
  defineHandler({ name: "echo", run: (config: unknown) => config as never }),
  defineHandler({
    name: "fails_twice",
    run: (_, { attempt }) => {
      if (attempt < 3) throw new Error(`attempt ${attempt} fails`)
      return { attempt }
    },
  }),
]

const workflow = {
  name: "rendered",
  nodes: [
    { id: "first", handler: "echo", config: { big: "{{ input.big }}", n: "{{ input.n + 1 }}" } },
    {
      id: "flaky",
      handler: "fails_twice",
      retry: { max_attempts: 3, initial_seconds: 0.01 },
      config: { of: "{{ nodes.first.output.n }}", size: "{{ nodes.first.output.big | length }}" },
    },
    {
      id: "secretive",
      handler: "echo",
      config: {
        header: "Bearer {{ secrets.API_KEY }} for {{ input.n }}",
        plain: "{{ secrets.API_KEY }}",
        upper: "{{ secrets.API_KEY | upper }}",
        visible: "{{ job.workflow }}",
      },
    },
    { id: "skipped", handler: "echo", when: "{{ input.n > 100 }}", config: { value: 1 } },
    {
      id: "each",
      handler: "echo",
      for_each: "{{ input.list }}",
      config: { value: "{{ item }} at {{ index }}" },
    },
    { id: "later", handler: "approval", dependencies: ["each"] },
    { id: "last", handler: "echo", config: { value: "{{ nodes.later.output }}" } },
  ],
}

async function jobOf(location?: string): Promise<{ stage: Stage; id: string }> {
  vi.stubEnv("UMBRA_SECRET_API_KEY", SECRET)
  const { waitForSignal } = await import("../../src/worker/waiting.ts")
  const approval = defineHandler({ name: "approval", run: () => waitForSignal("approved") })
  const stage = await openStage({
    ...(location === undefined ? {} : { location }),
    umbra: { handlers: [...handlers, approval], engine: { largeOutputBytes: 2000 } },
  })
  onTestFinished(() => stage.close())
  const pushed = await stage.ask("/workflows", { method: "POST", body: workflow })
  expect(pushed.status, JSON.stringify(pushed.body)).toBe(201)
  const input = { n: 4, big: "x".repeat(5000), list: ["a", "b"] }
  const { body } = await stage.ask("/jobs", { method: "POST", body: { workflow: "rendered", input } })
  await expect
    .poll(async () => (await stage.ask(`/jobs/${body.job_id}/graph`)).body.waiting_for)
    .toMatchObject([{ node: "later", kind: "signal" }])
  return { stage, id: body.job_id }
}

afterEach(() => vi.unstubAllEnvs())

describe.each(Object.keys(stores))("the config of a node, on %s", kind => {
  it("is rendered again for each attempt from the facts before it, with secrets masked", async () => {
    const store = await stores[kind]!()
    onTestFinished(() => store.remove())
    const { stage, id } = await jobOf(store.location)
    const config = async (node: string, query = "") =>
      (await stage.ask(`/jobs/${id}/nodes/${node}/config${query}`)).body
    expect(await config("first")).toMatchObject({
      node: "first",
      item: null,
      attempt: 1,
      config: { n: 5, big: "x".repeat(5000) },
      when: null,
      items: null,
      error: null,
    })
    const flaky = { of: 5, size: 5000 }
    expect(await config("flaky")).toMatchObject({ attempt: 3, config: flaky })
    const seqs: number[] = []
    for (const attempt of [1, 2, 3]) {
      const found = await config("flaky", `?attempt=${attempt}`)
      expect(found).toMatchObject({ attempt, config: flaky })
      seqs.push(found.seq)
    }
    expect([...seqs].sort((a, b) => a - b)).toEqual(seqs)
    expect(new Set(seqs).size).toBe(3)
    expect(await config("secretive")).toMatchObject({
      config: { header: "Bearer *** for 4", plain: "***", upper: "***", visible: "rendered" },
    })
    expect(await config("skipped")).toMatchObject({ when: false, config: null })
    expect(await config("each")).toMatchObject({ config: null, items: 2 })
    expect(await config("each", "?item=1")).toMatchObject({ item: 1, config: { value: "b at 1" } })
    for (const node of workflow.nodes) expect(JSON.stringify(await config(node.id))).not.toContain(SECRET)
    expect(JSON.stringify(await stage.ask(`/jobs/${id}/facts`))).not.toContain(SECRET)
  })
})

it("what does not exist is refused, and says what there is", async () => {
  const { stage, id } = await jobOf()
  const problem = async (path: string) => (await stage.ask(`/jobs/${id}/nodes/${path}`)).body
  expect(await problem("none/config")).toMatchObject({ status: 404, code: "E310" })
  expect(await problem("flaky/config?attempt=9")).toMatchObject({
    code: "E313",
    detail: expect.stringContaining("its last is 3"),
  })
  expect(await problem("last/config")).toMatchObject({
    code: "E313",
    detail: expect.stringContaining("has not been ready"),
  })
  expect(await problem("each/config?item=7")).toMatchObject({ code: "E313" })
  expect(await problem("each/config?attempt=0")).toMatchObject({ status: 400 })
  expect(await problem("each/config?other=0")).toMatchObject({ status: 400 })
})

it("a config that cannot be rendered shows the error of its attempt", async () => {
  const stage = await openStage({ umbra: { handlers } })
  onTestFinished(() => stage.close())
  const broken = { name: "broken", nodes: [{ id: "a", handler: "echo", config: { x: "{{ input.a.b.c }}" } }] }
  await stage.ask("/workflows", { method: "POST", body: broken })
  const { body } = await stage.ask("/jobs?wait=20", {
    method: "POST",
    body: { workflow: "broken", input: { a: 1 } },
  })
  expect(body.status).toBe("FAILED")
  const { body: found } = await stage.ask(`/jobs/${body.job_id}/nodes/a/config`)
  expect(found).toMatchObject({ config: null, error: { code: body.error.code } })
})
