import { describe, expect, it, onTestFinished } from "vitest"
import { parseReference, pick, Versions } from "../../src/engine/versions.ts"
import type { Journal } from "../../src/journal/port/journal.ts"
import { openMemory } from "../../src/journal/sqlite/memory.ts"
import { openUmbra } from "../../src/umbra.ts"

const flow = (greeting: string) => ({
  name: "flow",
  nodes: [{ id: "greet", handler: "transform", config: { value: greeting } }],
})

async function opened(journal: Journal = openMemory()) {
  const umbra = await openUmbra(journal)
  onTestFinished(() => umbra.close())
  const move = (alias: string, weights: Record<number, number>) =>
    umbra.registry.putAlias({
      owner: "local",
      name: "flow",
      alias,
      targets: Object.entries(weights).map(([version, weight]) => ({ version: Number(version), weight })),
      at: 1,
      by: "test",
    })
  const versionOf = async (reference: string, options = {}) =>
    (await (await umbra.submit(reference, {}, options)).wait()).workflow_version
  return { umbra, move, versionOf }
}

describe("references", () => {
  it.each([
    ["flow", { name: "flow" }],
    ["flow@3", { name: "flow", version: 3 }],
    ["flow@stable", { name: "flow", alias: "stable" }],
    ["flow@latest", { name: "flow" }],
    ["a@b@2", { name: "a@b", version: 2 }],
    ["mail me@ home", { name: "mail me@ home" }],
    ["@", { name: "@" }],
  ])("%s is read as %j", (text, reference) => {
    expect(parseReference(text)).toEqual(reference)
  })

  it("J20 a weighted set gives each version its share of the numbers from 0 to 1", () => {
    const targets = [
      { version: 1, weight: 3 },
      { version: 2, weight: 1 },
    ]
    const picked = Array.from({ length: 100 }, (_, n) => pick(targets, n / 100))
    expect(picked.filter(version => version === 1)).toHaveLength(75)
    expect(pick(targets, 0.999999)).toBe(2)
  })

  it("J20 a version with weight 0 is never drawn, wherever it stands", () => {
    const zero = { version: 1, weight: 0 }
    const some = [2, 3].map(version => ({ version, weight: 0.1 }))
    for (const targets of [
      [zero, ...some],
      [some[0]!, zero, some[1]!],
      [...some, zero],
    ])
      for (const random of [0, 0.5, 0.999999, 1 - 2 ** -53]) expect([2, 3]).toContain(pick(targets, random))
  })

  it("J20 latest follows every push, an alias only its moves, a number nothing", async () => {
    const { umbra, move, versionOf } = await opened()
    await umbra.register(flow("one"))
    await move("stable", { 1: 1 })
    await umbra.register(flow("two"))
    expect(await versionOf("flow")).toBe(2)
    expect(await versionOf("flow@latest")).toBe(2)
    expect(await versionOf("flow@stable")).toBe(1)
    expect(await versionOf("flow@1")).toBe(1)
    await move("stable", { 2: 1 })
    expect(await versionOf("flow@stable")).toBe(2)
    for (const reference of ["flow@3", "flow@none", "other"])
      await expect(umbra.submit(reference, {})).rejects.toMatchObject({
        code: "E305",
        message: expect.stringMatching(reference.includes("@") ? /alias after the @/ : /Store it first/),
      })
  })

  it("J20 a deleted workflow takes no job, also by number, while its compiled plan is still in memory", async () => {
    const { umbra, versionOf } = await opened()
    await umbra.register(flow("one"))
    expect(await versionOf("flow@1")).toBe(1)
    await umbra.registry.deleteWorkflow({ owner: "local", name: "flow", at: 1, by: "test" })
    await expect(umbra.submit("flow@1", {})).rejects.toMatchObject({ code: "E305" })
  })

  it("S2 the same key gives the same job although the alias has moved in between", async () => {
    const { umbra, move } = await opened()
    await umbra.register(flow("one"))
    await umbra.register(flow("two"))
    await move("stable", { 1: 1 })
    const submit = (input: object) => umbra.accept("flow@stable", input, { idempotencyKey: "k" })
    const first = await submit({})
    await move("stable", { 2: 1 })
    expect(await submit({})).toEqual({ jobId: first.jobId, isNew: false, stored: null })
    await expect(submit({ other: 1 })).rejects.toMatchObject({ code: "E306" })
  })

  it("many at once cost two queries, and no caller gets the answer of a query that began before its call", async () => {
    const journal = openMemory()
    const put = (hash: string) =>
      journal.putWorkflow({ owner: "o", name: "flow", hash, definition: "{}", createdAt: 1 })
    await put("one")
    const gates: (() => void)[] = []
    let asked = 0
    const readLatest = journal.registry.readLatest.bind(journal.registry)
    journal.registry.readLatest = async key => {
      asked++
      const found = await readLatest(key)
      await new Promise<void>(open => gates.push(open))
      return found
    }
    const versions = new Versions(journal)
    const first = versions.resolve("o", "flow")
    await expect.poll(() => gates.length).toBe(1)
    await put("two")
    const later = Array.from({ length: 50 }, () => versions.resolve("o", "flow"))
    gates[0]!()
    expect((await first).version).toBe(1)
    await expect.poll(() => gates.length).toBe(2)
    gates[1]!()
    for (const { version } of await Promise.all(later)) expect(version).toBe(2)
    expect(asked).toBe(2)
  })

  it.each([["\u0000"], ["\ud800"]])("labels that no database can compare are refused", async text => {
    const { umbra } = await opened()
    await umbra.register(flow("one"))
    for (const labels of [{ a: text }, { [text]: "a" }])
      await expect(umbra.submit("flow", {}, { labels })).rejects.toMatchObject({ code: "E309" })
  })
})
