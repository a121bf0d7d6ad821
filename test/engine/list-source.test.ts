import { describe, expect, it } from "vitest"
import { createMemoryStore, type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { flow, gate, handler, openOn } from "./stage.ts"

const say = handler("say", ({ text }: { text: string }) => ({ text }))

const lists = (second: string) => [
  { id: "first", handler: "say", config: { text: "{{ item }}" }, for_each: "{{ input.words.few }}" },
  { id: "second", handler: "say", config: { text: "{{ item.text | upper }}" }, for_each: second },
]

/** What the journal has of the lists of a job's nodes. */
async function stored(store: MemoryStore, jobId: string): Promise<Record<string, unknown>[]> {
  const rows = await openMemory(store).readFacts([jobId], { inlineBytes: 1_000_000 })
  return rows.filter(row => row.type === "node_expanded").map(row => JSON.parse(row.data!))
}

describe("J21 the list of for_each", () => {
  it("is not stored again when it is in the job's input, or what other items gave", async () => {
    const store = createMemoryStore()
    const umbra = await openOn(store, { handlers: [say] })
    const job = await umbra.submit(flow(lists("{{ first }}"), { output: "{{ second }}" }), {
      words: { few: ["a", "b"] },
    })
    expect((await job.wait()).output).toEqual([{ text: "A" }, { text: "B" }])
    const [first, second] = await stored(store, job.id)
    expect(first).toEqual({ node: 0, attempt: 1, items_of: { count: 2, input: ["words", "few"] } })
    expect(second).toEqual({ node: 1, attempt: 1, items_of: { count: 2, node: 0 } })
    expect(await umbra.items(job.id, "second")).toMatchObject({
      items: [{ item: { text: "a" } }, { item: { text: "b" } }],
    })
    const waits = (await umbra.events(job.id)).filter(({ payload }) => "items" in payload)
    expect(waits.map(({ payload }) => payload.items)).toEqual([2, 2])
  })

  it("is stored when it was computed", async () => {
    const store = createMemoryStore()
    const umbra = await openOn(store, { handlers: [say] })
    const job = await umbra.submit(flow(lists("{{ first | reverse | list }}"), { output: "{{ second }}" }), {
      words: { few: ["a", "b"] },
    })
    expect((await job.wait()).output).toEqual([{ text: "B" }, { text: "A" }])
    expect((await stored(store, job.id))[1]).toMatchObject({ items: [{ text: "b" }, { text: "a" }] })
  })

  it("S7 is known to the next engine, also to one that keeps less in memory", async () => {
    const store = createMemoryStore()
    const held = gate("held")
    const nodes = lists("{{ first }}").map(node =>
      node.id === "second" ? { ...node, handler: "held" } : node,
    )
    const first = await openOn(store, { handlers: [say, held.handler], engine: { drainSeconds: 0.01 } })
    const words = { few: ["short", "long".repeat(500)] }
    const job = await first.submit(flow(nodes, { output: "{{ second }}" }), { words })
    await held.came(2)
    await first.close()

    const again = handler("held", ({ text }: { text: string }) => text)
    const second = await openOn(store, { handlers: [say, again], engine: { largeOutputBytes: 1000 } })
    const { output } = await second.wait(job.id)
    expect(output).toEqual(["SHORT", "LONG".repeat(500)])
    expect(await second.queries.verify(await second.queries.row(job.id))).toEqual([])
  })
})

describe("the output of a job", () => {
  it("is only in the journal when its parts are many, and is read from there by every process", async () => {
    const store = createMemoryStore()
    const page = handler("page", ({ n }: { n: number }) => ({ n, text: "x".repeat(100_000) }))
    const pages = { id: "pages", handler: "page", config: { n: "{{ item }}" }, for_each: "{{ range(50) }}" }
    const umbra = await openOn(store, { handlers: [page] })
    const job = await umbra.submit(flow([pages]))
    const isRight = ({ pages: all }: { pages: readonly { n: number; text: string }[] }) =>
      all.length === 50 && all.every(({ n, text }, index) => n === index && text.length === 100_000)
    expect((await job.wait()).output).toSatisfy(isRight)
    expect((await umbra.queries.row(job.id)).output).toBeNull()
    const shown = await umbra.job(job.id)
    expect(shown.output).toSatisfy(isRight)
    expect(shown).not.toHaveProperty("output_left_out")
    expect(await umbra.jobs({})).toMatchObject([{ output: null, output_left_out: true }])
    const other = await openOn(store, { roles: ["api"] })
    expect((await other.wait(job.id)).output).toSatisfy(isRight)
  })

  it("is in the job's row when it is small, however much its nodes gave", async () => {
    const page = handler("page", () => "x".repeat(100_000))
    const pages = { id: "pages", handler: "page", for_each: "{{ range(50) }}" }
    const umbra = await openOn(createMemoryStore(), { handlers: [page] })
    const job = await umbra.submit(flow([pages], { output: "{{ pages | length }}" }))
    expect((await job.wait()).output).toBe(50)
    expect((await umbra.queries.row(job.id)).output).toBe("50")
  })
})
