/** What lies exactly on a boundary of definitions, and what work is left out that nobody needs. */
import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { firstIssues, valueCount } from "../../src/definition/document/first-issues.ts"
import { hashCanonical } from "../../src/definition/document/json-value.ts"
import { findCycles } from "../../src/definition/graph/cycles.ts"
import { RowBuilder, rowLengths, topologicalOrder, transpose } from "../../src/definition/graph/graph.ts"
import { handlerCatalog, parseDocument, validateWorkflow } from "../../src/definition/index.ts"
import { defaultLimits } from "../../src/definition/limits.ts"
import { invalidWorkflow } from "../../src/definition/problem.ts"
import { Suggester } from "../../src/definition/suggest.ts"
import { problemsOf } from "./catalog.ts"

const workflow = (more: object, node: object = {}) =>
  JSON.stringify({ name: "x", nodes: [{ id: "a", handler: "echo", ...node }], ...more })

describe("limits", () => {
  it("have the defaults that docs/reference/limits.md promises", () => {
    expect(defaultLimits).toEqual({
      ...{ documentBytes: 67_108_864, yamlBytes: 8_388_608, nodes: 100_000, edges: 1_000_000, routes: 1000 },
      ...{ adapters: 100, initMessages: 10_000, idLength: 128, depth: 100, aliasValues: 100_000 },
    })
  })

  it.each([
    [
      "mappings",
      (levels: number) => `${Array.from({ length: levels }, (_, n) => `${" ".repeat(n)}a:\n`).join("")}`,
    ],
    ["lists", (levels: number) => "- ".repeat(levels)],
  ])("YAML nests 100 levels of %s, and no more", (_, nested) => {
    const tooDeep = (levels: number) =>
      parseDocument(nested(levels)).problems.some(({ message }) => message.includes("Nested more than 100"))
    expect([tooDeep(100), tooDeep(102)]).toEqual([false, true])
  })

  it("lists that are closed at once do not hide those that stay open", () => {
    const [problem] = parseDocument(`a: ${"[[],".repeat(5000)}`).problems
    expect(problem?.message).toContain("Nested more than 100 levels")
    // Where 200 are open and one more is opened: nothing behind it is read.
    expect(problem?.column).toBe("a: ".length + 199 * "[[],".length + 2)
  })

  it("numbers of a node and of a route end where the docs say", () => {
    const attempts = (max_attempts: number) => problemsOf(workflow({}, { retry: { max_attempts } })).length
    expect([attempts(1000), attempts(1001)]).toEqual([0, 1])
    const prefetch = (count: number) =>
      validateWorkflow(
        {
          name: "x",
          init: {},
          routes: [{ name: "r", inbound: "q", adapters: [{ type: "echo" }], prefetch: count }],
        },
        { handlers: handlerCatalog([]) },
      ).filter(({ path }) => path.endsWith("prefetch")).length
    expect([prefetch(1_000_000), prefetch(1_000_001)]).toEqual([0, 1])
  })

  it("problems of texts that are too long have their number of characters", () => {
    const [problem] = problemsOf(workflow({ description: "x".repeat(10_001) }))
    expect(problem?.message).toContain("expected at most 10000 characters.")
    expect(problemsOf(workflow({ description: "x".repeat(10_000) }))).toEqual([])
  })

  it("of the problems of one value 1,000 are reported", () => {
    const list = Array.from({ length: 1500 }, (_, n) => `{{ unknown_${n} }}`)
    expect(problemsOf(workflow({}, { config: { list } }))).toHaveLength(1000)
  })
})

describe("ids of nodes", () => {
  const names = [
    ...["input", "nodes", "job", "secrets", "item", "index"],
    ...["true", "false", "none", "null", "True", "False", "None"],
    ...["and", "or", "not", "in", "is", "if", "else", "elif", "endif", "for", "endfor"],
    ...["loop", "range", "dict", "namespace", "constructor", "prototype", "__proto__"],
  ]

  it.each(names)("may not be %s, which templates read as something else", id => {
    expect(problemsOf(`{"name": "x", "nodes": [{"id": "${id}", "handler": "echo"}]}`)).toMatchObject([
      { path: "nodes[0].id" },
    ])
  })
})

describe("the problems of a large value", () => {
  it("are those of its first part that has any", () => {
    const list = Array.from({ length: 3500 }, (_, n) => (n === 5 || n === 3000 ? "x" : n))
    expect(firstIssues(z.array(z.number()), list).map(({ path }) => path)).toEqual([[5]])
  })

  it("are counted by values: a container, and each value in it", () => {
    expect([1, [], [1, 2], { a: 1, b: [2] }].map(value => valueCount(value, 10))).toEqual([1, 1, 3, 4])
    expect(valueCount(Array(50).fill(1), 10)).toBe(11)
  })
})

describe("what is not done twice", () => {
  it("a JSON document whose keys are all different is read once", () => {
    const parse = vi.spyOn(JSON, "parse")
    try {
      for (const text of ['{"a": 1, "b": {"c": [{"d": 2}]}}', '[{"a": 1}, {"a": 2}]']) {
        parse.mockClear()
        expect(parseDocument(text).problems).toEqual([])
        expect(parse, text).toHaveBeenCalledTimes(1)
      }
    } finally {
      parse.mockRestore()
    }
  })

  it("the search for cycles reads no edge of a node that has an order", () => {
    // 0 → 1 → 2 → 3 have an order; 4 and 5 wait for each other and for 3.
    const rows = new RowBuilder(6)
    for (const row of [[], [0], [1], [2], [3, 5], [3, 4]]) rows.add(row)
    const dependencies = rows.build()
    const { order, remaining } = topologicalOrder(rowLengths(dependencies), transpose(dependencies))
    expect([...order]).toEqual([0, 1, 2, 3])
    const read: number[] = []
    const items = new Proxy(dependencies.items, {
      get(of, key) {
        if (typeof key === "string") read.push(Number(key))
        return of[Number(key)]
      },
    })
    expect(findCycles({ ...dependencies, items }, remaining)).toEqual([[4, 5]])
    expect(Math.min(...read)).toBe(dependencies.starts[4])
  })

  it("rows of edges grow as they are needed", () => {
    const rows = new RowBuilder(3)
    for (const row of [[1, 2, 3, 4], [5, 6, 7, 8], [9]]) rows.add(row)
    expect([...rows.build().items]).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
  })

  it("S4 the hash of a definition takes a turn for every 1,000 nodes", () => {
    const turns = (count: number) => [...hashCanonical({ nodes: Array(count).fill({}) })].length
    expect([turns(1000), turns(1001), turns(2000)]).toEqual([1, 2, 2])
  })
})

describe("schemas of the input", () => {
  const problemsIn = (value: object) =>
    problemsOf(workflow({ input: { type: "object", properties: { value } } })).map(({ path }) => path)

  it("have true and false where a flag is needed", () => {
    expect(problemsIn({ type: "array", uniqueItems: true })).toEqual([])
    expect(problemsIn({ type: "array", uniqueItems: "yes" })).toEqual(["input.properties.value.uniqueItems"])
  })

  it.each(["null", "boolean", "object", "array", "number", "integer", "string"])("know the type %s", type => {
    expect(problemsIn({ type })).toEqual([])
  })
})

describe("E102 config", () => {
  const check = (config: z.ZodType, given: object) =>
    validateWorkflow(
      { name: "x", nodes: [{ id: "a", handler: "h", config: given }] },
      { handlers: handlerCatalog([{ name: "h", config }]) },
    ).map(({ code, path }) => `${code} ${path.replace("nodes[0].", "")}`)

  it("a list where a number is needed is wrong whatever its templates yield", () => {
    expect(check(z.object({ n: z.number() }), { n: ["{{ input.x }}"] })).toEqual(["E102 config.n"])
  })

  it("text is right where one form of several may be text, also if no text fits as written", () => {
    const value = z.union([z.number(), z.enum(["a0", "b0"])])
    expect(check(z.strictObject({ value }), { value: "{{ input.x }}0" })).toEqual([])
    const numbers = z.union([z.number(), z.array(z.number())])
    expect(check(z.strictObject({ value: numbers }), { value: "{{ input.x }}0" })).toEqual([
      "E102 config.value",
    ])
  })

  it("a value is wrong if each of its forms has something that no template can mend", () => {
    const target = z.union([
      z.strictObject({ host: z.url(), port: z.string() }),
      z.strictObject({ socket: z.string() }),
    ])
    expect(check(z.strictObject({ target }), { target: { host: "{{ input.host }}", port: 3 } })).toEqual([
      "E102 config.target",
    ])
  })
})

describe("suggestions", () => {
  it("are the nearest name, not the last that is near", () => {
    expect(new Suggester().nearest("colours", ["colors", "colrs"])).toBe("colors")
  })
})

describe("the error of an invalid workflow", () => {
  it("has the code of its first problem", () => {
    const problems = (["E107", "E101"] as const).map(code => ({ code, message: "wrong", path: "" }))
    expect(invalidWorkflow(problems)).toMatchObject({
      code: "E107",
      message: expect.stringContaining("2 problems"),
    })
    expect(invalidWorkflow([]).code).toBe("E101")
  })
})
