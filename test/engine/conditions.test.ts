import { describe, expect, it } from "vitest"
import { compileWorkflow, handlerCatalog } from "../../src/definition/index.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { flow, handler, open, openOn, states } from "./stage.ts"

const ran = handler("ran", () => "ran")
const conditional = (when: string) => flow([{ id: "a", handler: "ran", when }])

describe("when", () => {
  it.each(["false", "no", "", "true"])("that yields the text %j is a fault of its node", async text => {
    const umbra = await open({ handlers: [ran] })
    const job = await umbra.submit(conditional("{{ input.go }}"), { go: text })
    expect((await job.wait()).error).toMatchObject({ code: "E435", node: "a" })
    expect(await states(umbra, job.id)).toEqual({ a: "FAILED" })
  })

  it.each([
    [true, "COMPLETED"],
    [1, "COMPLETED"],
    [[0], "COMPLETED"],
    [{ a: 0 }, "COMPLETED"],
    [false, "SKIPPED"],
    [0, "SKIPPED"],
    [null, "SKIPPED"],
    [[], "SKIPPED"],
    [{}, "SKIPPED"],
  ])("that yields %j goes by truthiness: %s", async (go, status) => {
    const umbra = await open({ handlers: [ran] })
    const job = await umbra.submit(conditional("{{ input.go }}"), { go })
    await job.wait()
    expect(await states(umbra, job.id)).toEqual({ a: status })
  })

  it("with white space around its expression is that expression", async () => {
    const umbra = await open({ handlers: [ran] })
    for (const when of [" {{ false }} ", "{{ input.go }}\n"]) {
      const job = await umbra.submit(conditional(when), { go: false })
      await job.wait()
      expect(await states(umbra, job.id)).toEqual({ a: "SKIPPED" })
    }
  })

  it("of a version stored before 0.2 keeps its meaning: text is true, also if the same is pushed again", async () => {
    const store = createMemoryStore()
    const stored = async (name: string, when: string) => {
      const document = { ...conditional(when), name }
      const { plan } = compileWorkflow(document, { handlers: handlerCatalog([ran]), rules: 1 })
      const definition = JSON.stringify(plan!.canonical)
      const row = { owner: "local", name, hash: plan!.hash, definition, createdAt: 1 }
      await openMemory(store).putWorkflow(row)
    }
    await stored("spaced", " {{ false }} ")
    await stored("plain", "{{ input.go }}")
    await stored("branches", "{% if input.no %}true{% else %}false{% endif %}")
    const umbra = await openOn(store, { handlers: [ran] })
    const ends = async (name: string) => {
      const job = await umbra.submit(name, { go: "no", no: false })
      await job.wait()
      return { version: (await umbra.job(job.id)).workflow_version, ...(await states(umbra, job.id)) }
    }
    for (const name of ["spaced", "plain", "branches"])
      expect(await ends(name)).toEqual({ version: 1, a: "COMPLETED" })

    // The same content is the same version, with its meaning; what is written otherwise is a new one.
    const plain = { ...conditional("{{ input.go }}"), name: "plain" }
    expect(await umbra.register(plain)).toMatchObject({ version: 1, unchanged: true })
    expect(await ends("plain")).toEqual({ version: 1, a: "COMPLETED" })
    const spaced = { ...conditional(" {{ false }} "), name: "spaced" }
    expect(await umbra.register(spaced)).toMatchObject({ version: 2, unchanged: false })
    expect(await ends("spaced")).toEqual({ version: 2, a: "SKIPPED" })
    expect(await ends("spaced@1")).toEqual({ version: 1, a: "COMPLETED" })
    await expect(
      umbra.register({ ...conditional("{% if input.no %}true{% endif %}"), name: "branches" }),
    ).rejects.toMatchObject({ code: "E101" })
  })
})

describe("the condition of the adapter filter", () => {
  const pipeline = (when: string) => ({
    name: "p",
    routes: [{ name: "r", inbound: "q", adapters: [{ type: "filter", config: { when } }, { type: "log" }] }],
  })

  it("is a fault of the message where it yields text, and by truthiness in a version stored before 0.2", async () => {
    const store = createMemoryStore()
    const document = pipeline("{{ message.go }}")
    const row = { owner: "local", name: "p", definition: JSON.stringify(document), createdAt: 1 }
    await openMemory(store).putWorkflow({ ...row, hash: "stored before" })
    const umbra = await openOn(store)
    const earlier = await umbra.submit("p@1", { go: "no" })
    expect((await earlier.wait()).output).toMatchObject({ routes: { r: { done: 1, dead_lettered: 0 } } })
    const once = { retries: 0 }
    const routes = document.routes.map(route => ({ ...route, error_handling: once }))
    const now = await umbra.submit({ ...document, routes } as never, { go: "no" })
    await now.wait()
    const { dead_letters } = await umbra.pipelines.deadLetters(now.id)
    expect(dead_letters).toMatchObject([{ error: { code: "E403" } }])
  })
})
