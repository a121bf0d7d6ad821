import { describe, expect, it } from "vitest"
import type { Json } from "../../../src/core/json.ts"
import { builtIn, configOf, run } from "../adapter-run.ts"

const gathering = (type: string, config: unknown) => {
  const adapter = builtIn(type)
  return adapter.gather!(configOf(adapter, config))
}

describe("transform", () => {
  it.each<[Json]>([[{ a: [1] }], ["x"], [0], [[]]])("answers with its value, %j", async value => {
    expect((await run(builtIn("transform"), { body: 1, config: { value } })).answer).toEqual(value)
  })

  it("stores its config, so no secret may stand in it", () => {
    expect(builtIn("transform").storesConfig).toBe(true)
  })
})

describe("filter", () => {
  it.each<[Json, boolean]>([
    [true, true],
    [{ a: 1 }, true],
    [false, false],
    [0, false],
    [[], false],
    [{}, false],
    [null, false],
  ])("when %j the message continues: %s", async (when, goesOn) => {
    const { answer, emitted } = await run(builtIn("filter"), { body: { id: 1 }, config: { when } })
    expect(answer).toEqual(goesOn ? { id: 1 } : undefined)
    expect(emitted).toEqual([])
  })

  it.each(["no", ""])("refuses the text %j as a condition", async when => {
    await expect(run(builtIn("filter"), { config: { when } })).rejects.toMatchObject({ code: "E403" })
  })

  it("emits the others with a kind of their own, if it has one", async () => {
    const { answer, emitted } = await run(builtIn("filter"), {
      body: 7,
      config: { when: false, otherwise: "rest" },
    })
    expect([answer, emitted]).toEqual([undefined, [{ body: 7, kind: "rest" }]])
  })
})

describe("split", () => {
  it("emits each item, with a kind, and under a name beside what the message has", async () => {
    const split = builtIn("split")
    expect((await run(split, { body: [1, null, "x"] })).emitted).toEqual(
      [1, null, "x"].map(body => ({ body, kind: "default" })),
    )
    const { emitted, answer } = await run(split, {
      body: { page: 1, links: ["a", "b"] },
      config: { items: ["a", "b"], as: "url", kind: "link" },
    })
    expect(answer).toBeUndefined()
    expect(emitted).toEqual([
      { body: { page: 1, links: ["a", "b"], url: "a" }, kind: "link" },
      { body: { page: 1, links: ["a", "b"], url: "b" }, kind: "link" },
    ])
  })

  it.each<[Json, unknown, RegExp]>([
    [{ a: 1 }, {}, /split needs a list, not a mapping/],
    ["abc", {}, /not the string "abc"/],
    [null, { items: [1, 2, 3], max_items: 2 }, /longer than max_items \(2\): it has the number 3/],
    ["text", { items: [1], as: "x" }, /the message must be a mapping to which "x" can be added/],
  ])("of %j with %j is final: %s", async (body, config, message) => {
    const failed = run(builtIn("split"), { body, config })
    await expect(failed).rejects.toThrow(message)
    await expect(failed).rejects.toMatchObject({ code: "E725", retryable: false })
  })
})

describe("batch", () => {
  it("gathers by count and time, and passes the list on", async () => {
    expect(gathering("batch", {})).toEqual({ count: 100, seconds: 1 })
    expect(gathering("batch", { count: 3, seconds: 0.5 })).toEqual({ count: 3, seconds: 0.5 })
    expect((await run(builtIn("batch"), { body: [1, 2] })).answer).toEqual([1, 2])
  })
})

describe("aggregate", () => {
  const orders = [
    { who: "a", order: { price: 3 } },
    { who: "b", order: { price: 1 } },
    { who: "c", order: { price: 5 } },
  ]
  const field = "order.price"

  it.each<[unknown, Json]>([
    [{}, orders],
    [{ field: "who" }, ["a", "b", "c"]],
    [{ field: "none" }, [null, null, null]],
    [{ reduce: "count" }, 3],
    [{ reduce: "sum", field }, 9],
    [{ reduce: "min", field }, 1],
    [{ reduce: "max", field }, 5],
    [{ reduce: "avg", field }, 3],
    [{ reduce: "first" }, orders[0]!],
    [{ reduce: "last", field: "who" }, "c"],
  ])("%j gives %j", async (config, value) => {
    const { answer } = await run(builtIn("aggregate"), { body: orders, config })
    expect(answer).toEqual({ key: null, count: 3, value })
  })

  it("gathers apart by key, and distinguishes numbers from texts", () => {
    const key = (key: unknown) => gathering("aggregate", { key }).key
    expect(new Set([key("1"), key(1), key(true), key(null), key(undefined)]).size).toBe(4)
  })

  it("needs numbers where it counts with them", async () => {
    await expect(
      run(builtIn("aggregate"), { body: orders, config: { reduce: "sum", field: "who" } }),
    ).rejects.toThrow(/"who" must be a number; in gathered message 1 it is the string "a"/)
    expect(() => configOf(builtIn("aggregate"), { reduce: "sum" })).toThrow(/Name the field/)
  })
})

describe("log", () => {
  it("says something, and passes the message on", async () => {
    const { answer, logged } = await run(builtIn("log"), {
      body: { text: "x".repeat(50) },
      config: { level: "warn", message: "seen", max_characters: 20 },
    })
    expect(answer).toEqual({ text: "x".repeat(50) })
    expect(logged).toEqual([
      { level: "warn", fields: { body: `{"text":"${"x".repeat(10)}…` }, message: "seen" },
    ])
    expect((await run(builtIn("log"), { config: { fields: { n: 1 } } })).logged).toMatchObject([
      { level: "info", fields: { n: 1 } },
    ])
  })
})

describe("submit_job", () => {
  it("submits the message, or an input, and answers with the id", async () => {
    const first = await run(builtIn("submit_job"), { body: { a: 1 }, config: { workflow: "w" } })
    expect(first.submitted).toEqual([{ workflow: "w", input: { a: 1 } }])
    expect(first.answer).toEqual({ job_id: "job of w" })
    const config = { workflow: "w@2", input: null, key: "k", as: "job" }
    const second = await run(builtIn("submit_job"), { body: { a: 1 }, config })
    expect(second.submitted).toEqual([{ workflow: "w@2", input: null, key: "k" }])
    expect(second.answer).toEqual({ a: 1, job: "job of w@2" })
  })
})
