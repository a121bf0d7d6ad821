import { describe, expect, it } from "vitest"
import { flow, gate, handler, open, soon, states } from "./stage.ts"

describe("fan-out and fan-in", () => {
  it("J7 fan-in fires once, after all parents, and reads their outputs by template and as ctx.parents", async () => {
    let joins = 0
    const width = 50
    const part = handler("part", (config: { n: number }) => ({ n: config.n }))
    const join = handler("join", (config, ctx) => {
      joins++
      return { config, parents: ctx.parents }
    })
    const umbra = await open({ handlers: [part, join] })
    const parts = Array.from({ length: width }, (_, n) => ({
      id: `p${n}`,
      handler: "part",
      config: { n },
      dependencies: ["start"],
    }))
    const job = await umbra.submit(
      flow([
        { id: "start", handler: "input" },
        ...parts,
        {
          id: "join",
          handler: "join",
          config: {
            first: "{{ p0.n }}",
            last: `{{ p${width - 1}.n }}`,
            text: "{{ p1.n }} of {{ input.of }}",
          },
          dependencies: parts.map(node => node.id),
        },
      ]),
      { of: width },
    )
    const { status, output } = await job.wait()
    expect(status).toBe("COMPLETED")
    expect(joins).toBe(1)
    expect(output).toEqual({
      join: {
        config: { first: 0, last: width - 1, text: `1 of ${width}` },
        parents: Object.fromEntries(parts.map(({ id, config }) => [id, config])),
      },
    })
  })

  it("J7 what is independent runs at the same time", async () => {
    const both = gate()
    const umbra = await open({ handlers: [both.handler] })
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "gate" },
        { id: "b", handler: "gate" },
      ]),
    )
    await both.came(2)
    both.open()
    expect((await job.wait()).output).toEqual({ a: "through", b: "through" })
  })

  it("J8 a node gets the same idempotency key with every attempt", async () => {
    const keys: string[] = []
    const umbra = await open({
      handlers: [
        handler("again", (_config, ctx) => {
          keys.push(ctx.idempotencyKey)
          if (keys.length < 3) throw Object.assign(new Error("again"), { retryable: true })
          return null
        }),
      ],
    })
    const job = await umbra.submit(flow([{ id: "a", handler: "again", retry: soon }]))
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(keys).toEqual([`${job.id}/a`, `${job.id}/a`, `${job.id}/a`])
  })
})

describe("when", () => {
  it("J12 a false condition skips the node, dependents continue, and so does a chain of skips", async () => {
    const ran: string[] = []
    const note = handler("note", (_config, ctx) => {
      ran.push(ctx.nodeId)
      return { parents: ctx.parents }
    })
    const umbra = await open({ handlers: [note] })
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "note", when: "{{ input.yes }}" },
        { id: "b", handler: "note", dependencies: ["a"], when: "{{ not a.skipped }}" },
        { id: "c", handler: "note", dependencies: ["b"], config: { was: "{{ b.value | default('none') }}" } },
      ]),
      { yes: false },
    )
    const { status, output } = await job.wait()
    expect(status).toBe("COMPLETED")
    expect(ran).toEqual(["c"])
    expect(output).toEqual({ c: { parents: { b: { skipped: true } } } })
    expect(await states(umbra, job.id)).toEqual({ a: "SKIPPED", b: "SKIPPED", c: "COMPLETED" })
  })

  it("J12 a job whose nodes are all skipped is COMPLETED, with its output template rendered", async () => {
    const umbra = await open()
    const job = await umbra.submit(
      flow([{ id: "a", handler: "input", when: "{{ false }}" }], {
        output: { was_skipped: "{{ a.skipped }}" },
      }),
    )
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { was_skipped: true } })
  })
})

describe("output", () => {
  it("J3 an output template that cannot be rendered fails the job and says why", async () => {
    const umbra = await open()
    const job = await umbra.submit(
      flow([{ id: "a", handler: "transform", config: { value: {} } }], { output: "{{ a.missing.field }}" }),
    )
    const { status, error } = await job.wait()
    expect(status).toBe("FAILED")
    expect(error?.message).toContain("The job's output cannot be rendered")
    await expect(job.retry()).rejects.toMatchObject({ code: "E307" })
  })

  it("J3 the output template is rendered when a timer completes the last node", async () => {
    const umbra = await open()
    const job = await umbra.submit(
      flow(
        [
          { id: "a", handler: "transform", config: { value: 7 } },
          { id: "nap", handler: "sleep", config: { seconds: 0.02 }, dependencies: ["a"] },
        ],
        { output: { seven: "{{ a }}" } },
      ),
    )
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { seven: 7 } })
  })

  it("J22 what handlers report as used is summed on the job", async () => {
    const umbra = await open({
      handlers: [
        handler("use", (config: { tokens: number }, ctx) => {
          ctx.usage({ tokens: config.tokens, usd: 0.5 })
          ctx.usage({ tokens: 1 })
          return null
        }),
      ],
    })
    const job = await umbra.submit(
      flow([
        { id: "a", handler: "use", config: { tokens: 10 } },
        { id: "b", handler: "use", config: { tokens: 20 } },
      ]),
    )
    await job.wait()
    expect((await job.graph()).usage).toEqual({ tokens: 32, usd: 1 })
  })

  it("J15 a preview shows the job in PREVIEW with the data, and the job continues", async () => {
    let finish: (output: string) => void = () => {}
    const show = handler("show", (_config, ctx) => {
      ctx.preview({ half: true })
      return new Promise(resolve => {
        finish = resolve
      })
    })
    const umbra = await open({ handlers: [show] })
    const job = await umbra.submit(flow([{ id: "a", handler: "show" }]))
    const types: string[] = []
    for await (const event of job.watch()) {
      types.push(event.type)
      if (event.type !== "job.preview") continue
      const view = await job.graph()
      expect(view.status).toBe("PREVIEW")
      expect(view.nodes[0]!.preview).toEqual({ half: true })
      finish("whole")
    }
    expect(types).toContain("job.preview")
    expect(await job.status()).toMatchObject({ status: "COMPLETED", output: { a: "whole" } })
  })
})
