/** Rules of definitions that concern one place each. */
import { once } from "node:events"
import { describe, expect, it, onTestFinished } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { describe as described } from "../../src/definition/document/issues.ts"
import { compileWorkflow, handlerCatalog, loadWorkflow, parseDocument } from "../../src/definition/index.ts"
import { InputChecker } from "../../src/definition/input/input.ts"
import { CheckRun, StepsSpentError, shown, stepsPerMs } from "../../src/definition/input/schema-checks.ts"
import { threadMatchers } from "../../src/definition/input/schema-matchers.ts"
import { unsupportedConstruct } from "../../src/definition/input/schema-pattern.ts"
import { Suggester } from "../../src/definition/suggest.ts"
import { startThread } from "../../src/thread.ts"
import { builtinSpecs } from "../../src/worker/handlers/specs.ts"
import { handlers, planOf, problemsOf } from "./catalog.ts"
import { adapters } from "./pipeline/catalog.ts"

describe("a value in a message", () => {
  it.each([
    [null, "nothing (null)"],
    [[], "an empty list"],
    [[1], "a list"],
    [{}, "a mapping"],
    [7, "7"],
    ["x".repeat(40), `"${"x".repeat(40)}"`],
    ["x".repeat(41), `"${"x".repeat(40)}…"`],
  ])("%j is told as %s", (value, text) => {
    expect(described(value)).toBe(text)
  })

  it("of an input is shown up to 200 characters", () => {
    expect(shown("x".repeat(198))).toBe(`"${"x".repeat(198)}"`)
    expect(shown("x".repeat(199))).toBe(`"${"x".repeat(199)}…`)
  })
})

describe("places in JSON", () => {
  it.each([
    ["brackets in text", '{"a": {"x": "}]{"}, "b": 1}'],
    ["a quote in text", '{"a": {"x": "\\"}"}, "b": 1}'],
    ["a backslash at the end of text", '{"a": {"x": "y\\\\"}, "b": 1}'],
    ["an escaped quote after a backslash", '{"a": {"x": "\\\\\\"}"}, "b": 1}'],
    ["a key with a quote", '{"a\\"": {}, "b": 1}'],
  ])("are found behind %s", (_, text) => {
    expect(parseDocument(text).locate(["b"])).toEqual({ line: 1, column: text.indexOf("1") + 1 })
  })
})

describe("places in YAML", () => {
  const at = (text: string, offset: number) => parseDocument(text).locate(["a"], { offset })?.column

  it.each([
    ["plain", "a: bcd", [4, 5, 6]],
    ["single quotes", "a: 'b''c'", [5, 6, 8]],
    ["double quotes", 'a: "b\\tc"', [5, 6, 8]],
  ])("in %s are those of the characters of the value", (_, text, columns) => {
    expect(columns.map((_, offset) => at(text, offset))).toEqual(columns)
  })

  it("behind the last character of a text in quotes are on its closing quote", () => {
    expect(at('a: "bc"', 2)).toBe(7)
    expect(at('a: "bc"', 9)).toBe(7)
  })

  it("a template at the beginning of a line is to be put in quotes, whatever the line before ends with", () => {
    const [problem] = parseDocument("a: # text\n  {{ x }} and\n").problems
    expect(problem?.message).toContain("Put a value that begins with a template in quotes")
  })
})

describe("E107", () => {
  const node = (id: string, rest: string) => `  - {id: ${id}, handler: echo, ${rest}}\n`

  it("names the nodes of the cycle, and templates only when one causes it", () => {
    const plain = `name: x\nnodes:\n${node("a", "dependencies: [b]")}${node("b", "dependencies: [a]")}`
    expect(problemsOf(plain).map(({ message }) => message)).toEqual([
      "Cycle: a → b → a (each waits for the next). Remove one of these dependencies.",
    ])
    const read = `name: x\nnodes:\n${node("a", 'config: {text: "{{ b }}"}')}${node("b", "dependencies: [a]")}`
    expect(problemsOf(read)[0]?.message).toContain('caused by reading "b" in a template of "a".')
  })
})

describe("input schemas", () => {
  it("of a reference without a target only that is reported", () => {
    const workflow = (input: object) =>
      JSON.stringify({ name: "x", input, nodes: [{ id: "a", handler: "echo" }] })
    expect(problemsOf(workflow({ $ref: "#/$defs/gone" })).map(({ path }) => path)).toEqual(["input.$ref"])
  })

  it.each(["(?:a{200}){200}", "(a{2}b{999}){2}", "((a{100})b{20}){20}"])(
    "%s repeats too often: repetitions multiply",
    pattern => {
      expect(unsupportedConstruct(pattern)).toContain("more than 1000 repetitions")
    },
  )

  it.each(["a{1000}", "(?:a{10}){100}", "a{900}b{900}"])("%s repeats as often as may be", pattern => {
    expect(unsupportedConstruct(pattern)).toBeUndefined()
  })

  it("a format costs a step, and one for every four characters", () => {
    const spent = (steps: number) => () =>
      threadMatchers().format("email")!("ada@b.cd", new CheckRun({ steps }))
    expect(spent(3)()).toBe(true)
    expect(spent(2)).toThrow(StepsSpentError)
  })

  it("a check in a thread counts a step for every 32 characters of the input, besides the check", async () => {
    const thread = startThread("definition/input/thread")
    onTestFinished(async () => void (await thread.terminate()))
    const checks = [32, 32 * 1001].map(length => ({
      schema: 0,
      text: `"${"x".repeat(length - 2)}"`,
      depth: 5,
    }))
    thread.postMessage({ milliseconds: 100, schemas: [[0, "{}"]], isFirst: true, checks })
    const [answers] = (await once(thread, "message")) as [{ milliseconds: number }[]]
    expect((answers[1]!.milliseconds - answers[0]!.milliseconds) * stepsPerMs).toBeCloseTo(1000, 6)
  })

  it.each([
    [{ minProperties: 2 }, [false, true, true]],
    [{ maxProperties: 2 }, [true, true, false]],
    [{ minProperties: 2, maxProperties: 2 }, [false, true, false]],
    [{}, [true, true, true]],
  ])("%j bounds the number of keys", (schema, fitting) => {
    const checker = new InputChecker(threadMatchers())
    const fits = (given: Json) =>
      checker.check(schema, { given, depth: 3 }, new CheckRun({ steps: 1000 })).problems === undefined
    expect([{ a: 1 }, { a: 1, b: 2 }, { a: 1, b: 2, c: 3 }].map(fits)).toEqual(fitting)
  })

  it("an input that cannot be checked is refused as a whole", () => {
    const given = { given: null, depth: 1 }
    const check = new InputChecker(threadMatchers()).check({ $ref: "#" }, given, new CheckRun({ steps: 100 }))
    expect(check).toMatchObject({ problems: [{ path: "input" }], more: 0 })
  })

  it.each([
    ["^a{2,3}$", ["aa", "aaa"], ["a", "aaaa"]],
    ["^a{2,3}?b+?$", ["aab", "aaabb"], ["ab"]],
    ["^😀$", ["😀"], ["😀😀", "\ud83d"]],
    ["^[😀-😂]x$", ["😁x"], ["😃x"]],
    ["\\bcat\\b", ["cat", "a cat!"], ["concat", "cats"]],
    ["^\\ue000x$", ["\ue000x"], ["x"]],
    ["^\\u0041\\ue000$", ["A\ue000"], ["A"]],
    ["^\\u{41}\\x42\\cA$", ["AB\u0001"], ["AB"]],
    ["^\\ue000\\udc00$", ["\ue000\udc00"], ["\ue000"]],
    ["^[a-]+$", ["a-a"], ["b"]],
    ["^[\\]-a]$", ["]", "^", "a"], ["-", "b"]],
  ])("the pattern %s means what it means in JavaScript", (source, fitting, others) => {
    const fits = (text: string) =>
      threadMatchers().pattern(source)(text, new CheckRun({ steps: Number.POSITIVE_INFINITY }))
    expect([...fitting, ...others].map(fits)).toEqual([
      ...fitting.map(() => true),
      ...others.map(() => false),
    ])
  })

  it("references without a target are reported before chains that are too long", () => {
    const links = Array.from({ length: 20 }, (_, n) => [`d${n}`, { $ref: `#/$defs/d${n + 1}` }])
    const input = { $ref: "#/$defs/d0", $defs: Object.fromEntries(links) }
    const workflow = JSON.stringify({ name: "x", input, nodes: [{ id: "a", handler: "echo" }] })
    expect(problemsOf(workflow).map(({ path }) => path)).toEqual(["input.$defs.d19.$ref"])
  })
})

describe("a text where a number is needed", () => {
  it("is a problem at its value, not at its key", () => {
    const yaml =
      'name: x\nnodes:\n  - id: a\n    handler: sleep\n    config:\n      seconds: "{{ input.minutes }}0"\n'
    const [problem] = loadWorkflow(yaml, { handlers: handlerCatalog(builtinSpecs) }).problems ?? []
    expect(problem).toMatchObject({ code: "E102", path: "nodes[0].config.seconds", line: 6, column: 16 })
  })
})

describe("suggestions", () => {
  it("are given until the characters that are compared are spent", () => {
    const known = Array.from({ length: 100 }, (_, n) => `handler_number_${100 + n}`)
    const suggester = new Suggester()
    let given = 0
    while (suggester.nearest("handler_numbr_100", known) === "handler_number_100") given++
    // Each looks at 100 names of 18 characters; the name itself has 17. A near name ends the comparison of the others.
    expect(given).toBeGreaterThan(10)
    expect(given).toBeLessThan(2_000_000 / (17 * 18))
    expect(suggester.nearest("handler_number_10", ["handler_number_100"])).toBeUndefined()
  })
})

describe("the canonical form of a route", () => {
  const outboundOf = (outbound: unknown) => {
    const { plan, problems } = compileWorkflow(
      {
        name: "p",
        init: [{ queue: "a" }, { queue: "b" }, { queue: "c" }],
        routes: [
          { name: "a", inbound: "a", adapters: [{ type: "echo" }], outbound },
          { name: "b", inbound: "b", adapters: [{ type: "echo" }] },
          { name: "c", inbound: "c", adapters: [{ type: "echo" }] },
        ],
      },
      { handlers, adapters },
    )
    expect(problems).toBeUndefined()
    return (plan!.canonical as { routes: { outbound?: unknown }[] }).routes[0]!.outbound
  }

  it("has one queue as a text, and several by their kind", () => {
    expect(outboundOf("b")).toBe("b")
    expect(outboundOf({ default: "b" })).toBe("b")
    expect(outboundOf({ link: "b" })).toEqual({ link: "b" })
    expect(outboundOf({ default: "b", link: "c" })).toEqual({ default: "b", link: "c" })
  })
})

describe("the depth of YAML", () => {
  const problem = (text: string) => parseDocument(text).problems[0]
  const nested = /Nested more than (\d+) levels deep/

  it.each([
    ["a: ", "["],
    ["a: ", "{"],
    ["", "- "],
    ["", "? "],
  ])("is bounded while it is read: %s%s", (before, opening) => {
    const found = problem(before + opening.repeat(5000))
    const limit = Number(nested.exec(found?.message ?? "")?.[1])
    expect(found).toMatchObject({ line: 1, column: before.length + 2 * limit * opening.length + 1 })
  })

  it.each([
    ["lists beside each other", `a: [${"[],".repeat(3000)}[]]`],
    ["mappings beside each other", `a: [${"{},".repeat(3000)}{}]`],
    ["items, each on its line", "- a\n".repeat(3000)],
    ["brackets in quotes", '- "[["\n'.repeat(3000)],
    ["brackets in plain text", "- a [ b\n".repeat(3000)],
  ])("counts what is open, not %s", (_, text) => {
    expect(problem(text)).toBeUndefined()
  })
})

describe("the document of a plan", () => {
  it("keeps a retry that is written with its defaults; the canonical form, which is hashed, does not", () => {
    const plan = planOf(
      "name: x\nnodes:\n  - {id: a, handler: echo, retry: {max_attempts: 3}}\n  - {id: b, handler: echo}\n",
    )
    const nodes = (of: unknown) => (of as { nodes: { retry?: object }[] }).nodes.map(({ retry }) => retry)
    expect(nodes(plan.canonical)).toEqual([undefined, undefined])
    expect(nodes(plan.document)).toEqual([{ max_attempts: 3 }, undefined])
  })
})
