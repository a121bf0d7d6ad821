import { describe, expect, it } from "vitest"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { childOf, inner } from "./family.ts"
import { holding } from "./held-answers.ts"
import { flow, gate, handler, open, openOn, until } from "./stage.ts"

const KB = 1024
const big = (bytes: number) => "x".repeat(bytes)

/** Returns as many bytes as its config says. */
const produce = handler("produce", (config: { bytes: number }) => ({ text: big(config.bytes), mark: 7 }))
const read = handler("read", (config, ctx) => ({
  config,
  sizes: Object.fromEntries(
    Object.entries(ctx.parents).map(([id, output]) => [id, (output as { text: string }).text.length]),
  ),
}))

describe("large outputs", () => {
  it("an output over the limit is read by the next node's templates and ctx.parents", async () => {
    const umbra = await open({ handlers: [produce, read] })
    const job = await umbra.submit(
      flow([
        { id: "large", handler: "produce", config: { bytes: 300 * KB } },
        {
          id: "reader",
          handler: "read",
          config: { mark: "{{ large.mark }}", size: "{{ large.text | length }}" },
          dependencies: ["large"],
        },
      ]),
    )
    expect(await job.wait()).toMatchObject({
      status: "COMPLETED",
      output: { reader: { config: { mark: 7, size: 300 * KB }, sizes: { large: 300 * KB } } },
    })
  })

  it("an output over the limit has left memory when a later node reads it, and is still read right", async () => {
    const busy = gate()
    const umbra = await open({ handlers: [produce, read, busy.handler], engine: { largeOutputBytes: 1000 } })
    const job = await umbra.submit(
      flow(
        [
          { id: "large", handler: "produce", config: { bytes: 2000 } },
          { id: "between", handler: "gate", dependencies: ["large"] },
          {
            id: "reader",
            handler: "read",
            config: { mark: "{{ large.mark }}" },
            dependencies: ["large", "between"],
          },
        ],
        { output: { text: "{{ large.text | length }}", mark: "{{ reader.config.mark }}" } },
      ),
    )
    await busy.came()
    busy.open({ text: "" })
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { text: 2000, mark: 7 } })
  })

  it("J3 a job that has ended and is still in memory, to notify its parent, is shown with it", async () => {
    const journal = openMemory()
    const reads = holding(journal, "readFact")
    const umbra = await open({ at: journal, handlers: [produce], engine: { largeOutputBytes: 1000 } })
    await umbra.register(inner([{ id: "large", handler: "produce", config: { bytes: 2000 } }]))
    reads.hold()
    const job = await umbra.submit(
      flow([{ id: "child", handler: "workflow", config: { workflow: "inner" } }]),
    )
    await until("its output is read for the parent", () => reads.held.length === 1)
    reads.pass()
    const output = { large: { text: big(2000), mark: 7 } }
    expect(await umbra.job(childOf(job.id, 0))).toMatchObject({ status: "COMPLETED", output })
    reads.letGo()
    expect((await job.wait()).output).toEqual({ child: output })
  })

  it("a large output is the job's output, also of one that left memory before the job ended", async () => {
    const busy = gate()
    const umbra = await open({ handlers: [produce, busy.handler], engine: { largeOutputBytes: 1000 } })
    const job = await umbra.submit(
      flow([
        { id: "large", handler: "produce", config: { bytes: 2000 } },
        { id: "other", handler: "gate" },
      ]),
    )
    await busy.came()
    await until("the large one is done", async () => (await job.graph()).nodes[0]!.status === "COMPLETED")
    busy.open()
    const expected = { large: { text: big(2000), mark: 7 }, other: "through" }
    expect((await job.wait()).output).toEqual(expected)
    expect((await umbra.job(job.id)).output).toEqual(expected)
  })

  it("a large output survives a restart and is read by what runs after it", async () => {
    const store = createMemoryStore()
    const busy = gate()
    const engine = { largeOutputBytes: 1000, drainSeconds: 0.01 }
    const first = await openOn(store, { handlers: [produce, read, busy.handler], engine })
    const job = await first.submit(
      flow([
        { id: "large", handler: "produce", config: { bytes: 2000 } },
        { id: "between", handler: "gate", dependencies: ["large"] },
        { id: "reader", handler: "read", dependencies: ["large", "between"] },
      ]),
    )
    await busy.came()
    await first.close()
    const through = handler("gate", () => ({ text: "" }))
    const second = await openOn(store, { handlers: [produce, read, through], engine })
    expect(await second.wait(job.id)).toMatchObject({
      status: "COMPLETED",
      output: { reader: { sizes: { large: 2000, between: 0 } } },
    })
    busy.open()
  })

  it("an output over 16 MB is refused with a clear error, and nothing else is lost", async () => {
    const umbra = await open({ handlers: [produce] })
    const bad = await umbra.submit(
      flow([{ id: "huge", handler: "produce", config: { bytes: 17 * KB * KB }, retry: { max_attempts: 1 } }]),
    )
    const good = await umbra.submit(flow([{ id: "fine", handler: "produce", config: { bytes: 10 } }]))
    const { status, error } = await bad.wait()
    expect(status).toBe("FAILED")
    expect(error).toMatchObject({ node: "huge", message: expect.stringMatching(/large|bytes|MB/) })
    expect((await good.wait()).status).toBe("COMPLETED")
  })

  const text = { id: "n", handler: "produce", config: { bytes: 400 } }
  const copies = (count: number) => Array(count).fill("{{ n.text }}")
  const following = (node: object) =>
    [text, { id: "t", handler: "read", dependencies: ["n"], ...node }] as never
  it.each([
    ["the job's output", (count: number) => flow([text], { output: copies(count) })],
    ["a config", (count: number) => flow(following({ config: { value: copies(count) } }))],
    [
      "the list of a for_each",
      (count: number) => flow(following({ for_each: `{{ [n.text] * ${count} }}`, config: { value: 1 } })),
    ],
    [
      "what goes along with templates of secrets",
      (count: number) =>
        flow(following({ config: { value: Array(count).fill("{{ secrets.KEY and 0 and n }}") } })),
    ],
    [
      "texts with secrets",
      (count: number) => flow(following({ config: { value: Array(count).fill("{{ secrets.KEY * 40 }}") } })),
    ],
  ])("E405 %s may not insert more than max_output_bytes, however short its template", async (_, workflow) => {
    const umbra = await open({
      handlers: [produce, handler("read", () => 0)],
      worker: { maxOutputBytes: 1300 },
      secrets: () => "0123456789",
    })
    const fits = await umbra.submit(workflow(2))
    const job = await umbra.submit(workflow(5))
    expect((await fits.wait()).error).toBe(null)
    expect(await job.wait()).toMatchObject({
      status: "FAILED",
      error: { code: "E405", message: expect.stringContaining("1,300 bytes") },
    })
  })

  it("E405 a job whose output would have 400 MB ends before the output is built", async () => {
    const umbra = await open()
    const nodes = [{ id: "n", handler: "transform", config: { value: "{{ 'a' * 4000000 }}" } }]
    const job = await umbra.submit(flow(nodes, { output: Array(100).fill("{{ n }}") }))
    expect(await job.wait()).toMatchObject({ status: "FAILED", error: { code: "E405" } })
  })

  it.each([
    ["a function", () => () => {}],
    [
      "a cycle",
      () => {
        const cycle: { self?: unknown } = {}
        cycle.self = cycle
        return cycle
      },
    ],
    ["a bigint", () => 1n],
  ])("an output that is not JSON (%s) fails the node", async (_what, make) => {
    const umbra = await open({ handlers: [handler("odd", () => make())] })
    const job = await umbra.submit(flow([{ id: "a", handler: "odd", retry: { max_attempts: 1 } }]))
    expect(await job.wait()).toMatchObject({ status: "FAILED", error: { node: "a" } })
  })
})
