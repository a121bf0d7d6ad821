import { describe, expect, it } from "vitest"
import { validateWorkflow } from "../../src/definition/index.ts"
import { handlers, places, problemsOf } from "./catalog.ts"

const yaml = (nodes: string, rest = "") => `name: x\n${rest}nodes:\n${nodes}`
const json = (...nodes: object[]) => JSON.stringify({ name: "x", nodes }, null, 2)

describe("J3 names", () => {
  it.each(["a\0b", "line\nbreak", "half \ud800"])("cannot be %j: no store could compare it", name => {
    const [problem, ...more] = validateWorkflow({ name, nodes: [{ id: "a", handler: "echo" }] }, { handlers })
    expect(more).toEqual([])
    expect(problem).toMatchObject({ code: "E101", path: "name" })
    expect(problem?.message).toContain("expected text without control characters")
  })
})

describe("J4 every problem has its code, path, line and column, in YAML", () => {
  it.each([
    ["E101", yaml("  - id: a\n    handler: echo\n    handlr: b\n"), ["E101 5:5 nodes[0].handlr"]],
    [
      "E102",
      yaml("  - id: a\n    handler: llm_service\n    config:\n      prompt: 3\n"),
      ["E102 6:15 nodes[0].config.prompt"],
    ],
    ["E101", yaml("  - id: a\n    handler: external\n"), ["E101 4:14 nodes[0].handler"]],
    ["E101", yaml("  - id: a\n    handler: external\n    provider: acme\n"), []],
    ["E103", yaml("  - id: a\n    handler: ecco\n"), ["E103 4:14 nodes[0].handler"]],
    ["E104", yaml("  - {id: a, handler: echo}\n  - {id: a, handler: echo}\n"), ["E104 4:10 nodes[1].id"]],
    [
      "E105",
      yaml("  - id: a\n    handler: echo\n    dependencies: [b]\n"),
      ["E105 5:20 nodes[0].dependencies[0]"],
    ],
    [
      "E106",
      yaml("  - id: a\n    handler: echo\n    dependencies: [a]\n"),
      ["E106 5:20 nodes[0].dependencies[0]"],
    ],
    [
      "E107",
      yaml("  - {id: a, handler: echo, dependencies: [b]}\n  - {id: b, handler: echo, dependencies: [a]}\n"),
      ["E107 3:43 nodes[0].dependencies[0]"],
    ],
    ["E108", "name: x\nnodes: []\n", ["E108 2:8 nodes"]],
    [
      "E110",
      yaml('  - id: a\n    handler: echo\n    config: {x: "ab {{ 1 + }}"}\n'),
      ["E110 5:28 nodes[0].config.x"],
    ],
    [
      "E111",
      yaml('  - id: a\n    handler: echo\n    config: {x: "ab {{ gone.x }}"}\n'),
      ["E111 5:24 nodes[0].config.x"],
    ],
    [
      "E112",
      yaml("  - id: a\n    handler: echo\n    when: '{{ secrets.KEY }}'\n"),
      ["E112 5:15 nodes[0].when"],
    ],
  ])("%s", (_, text, expected) => {
    expect(places(text)).toEqual(expected)
  })
})

describe("J4 the same in JSON", () => {
  const echo = { id: "a", handler: "echo" }
  it.each([
    ["E101", json({ ...echo, handlr: 1 }), ["E101 7:7 nodes[0].handlr"]],
    [
      "E102",
      json({ id: "a", handler: "llm_service", config: { prompt: 3 } }),
      ["E102 8:19 nodes[0].config.prompt"],
    ],
    ["E103", json({ id: "a", handler: "ecco" }), ["E103 6:18 nodes[0].handler"]],
    ["E104", json(echo, echo), ["E104 9:13 nodes[1].id"]],
    ["E105", json({ ...echo, dependencies: ["b"] }), ["E105 8:9 nodes[0].dependencies[0]"]],
    ["E106", json({ ...echo, config: { x: "{{ a.x }}" } }), ["E106 8:18 nodes[0].config.x"]],
    [
      "E107",
      json({ ...echo, config: { x: "{{ b }}" } }, { ...echo, id: "b", dependencies: ["a"] }),
      ["E107 8:18 nodes[0].config.x"],
    ],
    ["E108", json(), ["E108 3:12 nodes"]],
    ["E110", json({ ...echo, config: { x: 'say "{{ 1 + }}"' } }), ["E110 8:28 nodes[0].config.x"]],
    ["E111", json({ ...echo, config: { x: '\n"{{ gone }}"' } }), ["E111 8:22 nodes[0].config.x"]],
    [
      "E112",
      json({ id: "a", handler: "transform", config: { value: "{{ secrets.KEY }}" } }),
      ["E112 8:22 nodes[0].config.value"],
    ],
  ])("%s", (_, text, expected) => {
    expect(places(text)).toEqual(expected)
  })
})

describe("messages say what to do", () => {
  const message = (text: string) => problemsOf(text)[0]?.message

  it("suggests the nearest name", () => {
    expect(message("nam: x\nnodes: [{id: a, handler: echo}]\nname: y\n")).toContain('Did you mean "name"?')
    expect(message(yaml("  - {id: a, handler: ehco}\n"))).toContain('Did you mean "echo"?')
    expect(
      message(yaml("  - {id: fetch, handler: echo}\n  - {id: b, handler: echo, dependencies: [fecth]}\n")),
    ).toContain('Did you mean "fetch"?')
    expect(message(yaml("  - {id: a, handler: echo, retry: {max_attemps: 2}}\n"))).toContain(
      'Did you mean "max_attempts"?',
    )
  })

  it("names the place of the first of two equal ids", () => {
    expect(message(yaml("  - {id: a, handler: echo}\n  - {id: a, handler: echo}\n"))).toContain(
      "nodes[0] already has the id",
    )
  })

  it.each([
    ["timeout_seconds: -1", '"timeout_seconds" is -1; expected more than 0.'],
    ["timeout_seconds: soon", '"timeout_seconds" is "soon"; expected a number.'],
    ["heartbeat_seconds: 0", '"heartbeat_seconds" is 0; expected more than 0.'],
    ["retry: {max_attempts: 1.5}", '"max_attempts" is 1.5; expected a whole number.'],
    ["retry: {jitter: 2}", '"jitter" is 2; expected at most 1.'],
    ["when: 3", '"when" is 3; expected true, false or a template.'],
    [
      "when: input.go",
      '"when" is text without a template, so its value would never change. Write "{{ input.go }}".',
    ],
    ["for_each: 3", '"for_each" is 3; expected a list or a template.'],
    ["for_each: 'x {{ input.l }}'", expect.stringContaining('"for_each" yields text here.')],
    ["max_parallel: 3", '"max_parallel" has no effect without "for_each". Remove it.'],
    ["fail_fast: false", '"fail_fast" has no effect without "for_each". Remove it.'],
    ["config: [1]", '"config" is a list; expected a mapping.'],
    ["dependencies: b", '"dependencies" is "b"; expected a list of node ids.'],
  ])("%s", (field, expected) => {
    expect(
      problemsOf(yaml(`  - id: a\n    handler: echo\n    ${field}\n`)).map(problem => problem.message),
    ).toEqual([expected])
  })

  it("says what is missing", () => {
    expect(problemsOf("nodes: [{id: a}]\n").map(problem => problem.message)).toEqual([
      'The workflow has no "name". Add it: text.',
      'The node has no "handler". Add it: text.',
    ])
    expect(problemsOf("- a\n").map(problem => problem.message)).toEqual([
      'A workflow must be a mapping with "name" and "nodes"; this is a list.',
    ])
  })
})

describe("J4 all causes at once, no consequences", () => {
  it("continues past a wrong field, and past a wrong node", () => {
    const text = yaml(`  - id: a
    handler: nope
    timeout_seconds: x
    config: { v: "{{ gone }}" }
    dependencies: [missing, 3]
  - 7
  - id: b
    handler: llm_service
    config: {}
`)
    expect(places(text)).toEqual([
      "E103 4:14 nodes[0].handler",
      "E101 5:22 nodes[0].timeout_seconds",
      "E111 6:22 nodes[0].config.v",
      "E105 7:20 nodes[0].dependencies[0]",
      "E101 7:29 nodes[0].dependencies[1]",
      "E101 8:5 nodes[1]",
      "E102 11:13 nodes[2].config.prompt",
    ])
  })

  it("leaves out references to an entry that is itself reported", () => {
    const text = yaml(`  - { id: 9lives, handler: echo }
  - { ids: second, handler: echo }
  - third
  - id: d
    handler: echo
    dependencies: [9lives, second, third]
    config: { v: "{{ second.x }} {{ nodes['third'] }}" }
`)
    expect(places(text)).toEqual(["E101 3:11 nodes[0].id", "E101 4:7 nodes[1].ids", "E101 5:5 nodes[2]"])
  })

  it("leaves out that a key is missing where it is misspelt", () => {
    expect(places("nam: x\nnods:\n  - {}\n")).toEqual(["E101 1:1 nam", "E101 2:1 nods"])
    expect(places(yaml("  - { id: a, hander: echo }\n"))).toEqual(["E101 3:14 nodes[0].hander"])
    expect(places(yaml("  - { id: a, handler: llm_service, config: { promt: hello } }\n"))).toEqual([
      "E102 3:46 nodes[0].config.promt",
    ])
    expect(places(yaml("  - { id: a, handler: llm_service, config: { other: hello } }\n"))).toHaveLength(2)
  })

  it("leaves out what follows from a value that could not be read", () => {
    expect(places("name: x\nnodes: &all\n  - *all\n")).toEqual(["E101 3:5 nodes[0]"])
    expect(places(yaml("  - { id: !!binary aGk=, handler: echo }\n"))).toHaveLength(1)
    const merged = yaml("  - &a { id: a, handler: echo }\n  - { <<: *a, id: b, dependencies: [gone] }\n")
    expect(places(merged)).toEqual(["E101 4:7 nodes[1]", "E105 4:37 nodes[1].dependencies[0]"])
    const unquoted = yaml("  - id: a\n    handler: llm_service\n    config:\n      prompt: {{ input.x }}\n")
    expect(places(unquoted)).toEqual(["E101 6:16 nodes[0].config.prompt"])
  })

  it("leaves out entries, exits and what is behind a cycle", () => {
    const text = yaml(`  - { id: a, handler: echo, dependencies: [b] }
  - { id: b, handler: echo, dependencies: [a] }
  - { id: behind, handler: echo, dependencies: [b] }
`)
    expect(problemsOf(text).map(problem => problem.code)).toEqual(["E107"])
  })
})

describe("ids", () => {
  it.each([
    "input",
    "nodes",
    "job",
    "secrets",
    "item",
    "index",
    "loop",
    "true",
    "none",
    "range",
    "not",
    "in",
  ])("refuses %s, which would hide a name of templates", id => {
    const [problem] = problemsOf(yaml(`  - { id: "${id}", handler: echo }\n`))
    expect(problem).toMatchObject({
      code: "E101",
      path: "nodes[0].id",
      message: expect.stringContaining("would hide"),
    })
  })

  it.each(["1a", "-a", "a b", "a.b", "ä", ""])("refuses %j", id => {
    expect(places(yaml(`  - { id: "${id}", handler: echo }\n`))).toEqual(["E101 3:11 nodes[0].id"])
  })

  it.each(["a", "_", "A-b_9"])("accepts %s", id => {
    expect(places(yaml(`  - { id: "${id}", handler: echo }\n`))).toEqual([])
  })

  it("is limited in length", () => {
    expect(places(yaml(`  - { id: ${"a".repeat(128)}, handler: echo }\n`))).toEqual([])
    expect(problemsOf(yaml(`  - { id: ${"a".repeat(129)}, handler: echo }\n`))[0]?.message).toContain(
      "(limit idLength)",
    )
  })
})

describe("objects of code", () => {
  it("are checked like documents, without positions", () => {
    expect(validateWorkflow({ name: "x", nodes: [{ id: "a", handler: "gone" }] }, { handlers })).toEqual([
      { code: "E103", path: "nodes[0].handler", message: expect.any(String) },
    ])
  })

  it("may hold undefined, but nothing else that JSON cannot hold", () => {
    const node = { id: "a", handler: "echo", timeout_seconds: undefined }
    expect(validateWorkflow({ name: "x", nodes: [node] }, { handlers })).toEqual([])
    const config = { a: Number.NaN, b: new Date(), c: () => 1, d: 1n, e: [undefined], f: new Map() }
    const paths = validateWorkflow({ name: "x", nodes: [{ ...node, config }] }, { handlers }).map(
      ({ path }) => path,
    )
    expect(paths).toEqual(["a", "b", "c", "d", "e[0]", "f"].map(key => `nodes[0].config.${key}`))
  })

  it("that contain themselves, or share parts without end, are refused", () => {
    const limits = { documentBytes: 100_000 }
    const check = (config: object) =>
      validateWorkflow({ name: "x", nodes: [{ id: "a", handler: "echo", config }] }, { handlers, limits })
    const circle: Record<string, unknown> = {}
    circle.one = circle
    circle.two = { circle }
    expect(check(circle).map(({ path }) => path)).toEqual([
      "nodes[0].config.one",
      "nodes[0].config.two.circle",
    ])
    let doubled: unknown = 1
    for (let i = 0; i < 60; i++) doubled = [doubled, doubled]
    expect(check({ doubled })[0]?.message).toMatch(/^More than \d+ values/)
  })
})
