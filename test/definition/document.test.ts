import { describe, expect, it, onTestFinished, vi } from "vitest"
import { parseDocument } from "../../src/definition/index.ts"

const messages = (text: string) =>
  parseDocument(text).problems.map(({ line, column, message }) => `${line}:${column} ${message}`)

describe("YAML documents", () => {
  const text = `name: x
nodes:
  - id: a
    config:
      block: |
        first
        then {{ x }}
      double: "tab\\t {{ y }}"
      single: 'it''s {{ z }}'
      folded: >
        some {{ q }}
      nothing:
`

  it("gives the value and the place of every path", () => {
    const document = parseDocument(text)
    expect(document.format).toBe("yaml")
    expect(document.problems).toEqual([])
    expect(document.value).toEqual({
      name: "x",
      nodes: [
        {
          id: "a",
          config: {
            block: "first\nthen {{ x }}\n",
            double: "tab\t {{ y }}",
            single: "it's {{ z }}",
            folded: "some {{ q }}\n",
            nothing: null,
          },
        },
      ],
    })
    expect(document.locate(["nodes", 0, "id"])).toEqual({ line: 3, column: 9 })
    expect(document.locate(["nodes", 0, "id"], { key: true })).toEqual({ line: 3, column: 5 })
    expect(document.locate(["nodes", 0, "absent", "deeper"])).toEqual({ line: 3, column: 5 })
    expect(document.locate([])).toEqual({ line: 1, column: 1 })
  })

  it.each([
    ["block", 11, { line: 7, column: 14 }],
    ["double", 5, { line: 8, column: 22 }],
    ["single", 5, { line: 9, column: 22 }],
    ["folded", 5, { line: 10, column: 15 }],
  ])("points into a %s string as exactly as its style allows", (key, offset, position) => {
    expect(parseDocument(text).locate(["nodes", 0, "config", key], { offset })).toEqual(position)
  })

  it.each([
    ["value: {{ input.x }} and more", "begins with a template in quotes"],
    ["value: {{ input.x }}{{ input.y }}", "begins with a template in quotes"],
    ["value: {% if input.x %}a{% endif %}", "begins with a template in quotes"],
    ["- {{ input.x }} and more", "begins with a template in quotes"],
    ["value: Hello: {{ input.x }}", 'contains ": " in quotes'],
  ])("says once what to do about %s", (line, advice) => {
    expect(messages(`config:\n  ${line}\n`)).toEqual([expect.stringContaining(advice)])
  })

  it("reports duplicate keys, keys and values that JSON does not have, each at its place", () => {
    expect(messages("a: 1\na: 2\n1: x\nn: .nan\nb: !!binary aGk=\n<<: {x: 1}\nt: {{ x }}\n")).toEqual([
      '2:1 Duplicate key "a", first on line 1. Remove one of them.',
      "3:1 A key must be a string. Put 1 in quotes, or write a list.",
      "4:4 NaN is not a JSON value. Put it in quotes if it is meant as text.",
      "5:13 The tag tag:yaml.org,2002:binary is not part of JSON. Write the value without it.",
      "6:1 Merge keys (<<) are not part of YAML 1.2. Write the keys out, or put << in quotes.",
      '7:5 A template that begins with {{ must be in quotes: "{{ … }}".',
    ])
  })

  it("takes a quoted << for a key like any other", () => {
    expect(parseDocument('"<<": { x: 1 }\n')).toMatchObject({ value: { "<<": { x: 1 } }, problems: [] })
  })

  it("keeps dates and yes/no as text", () => {
    expect(parseDocument("at: 2026-11-15\nok: yes\n").value).toEqual({ at: "2026-11-15", ok: "yes" })
  })

  it("reads aliases, and points at where they lead", () => {
    const document = parseDocument("a: &x {b: [1]}\nc: *x\n")
    expect(document.value).toEqual({ a: { b: [1] }, c: { b: [1] } })
    expect(document.locate(["c", "b", 0])).toEqual({ line: 1, column: 12 })
  })

  it("refuses alias bombs, aliases of themselves and of nothing", () => {
    const level = (name: string, inner: string) => `${name}: &${name} [${Array(10).fill(inner).join(", ")}]\n`
    const bomb = level("a", "x") + level("b", "*a") + level("c", "*b") + level("d", "*c") + level("e", "*d")
    expect(messages(bomb)).toEqual([expect.stringContaining("Aliases add more than 100000 values")])
    expect(messages("a: &a [*a]\nb: *b\n")).toEqual([
      "1:8 The alias *a is inside the value that it refers to.",
      "2:4 There is no anchor &b before this alias.",
    ])
  })

  it("refuses several documents, other versions and empty text", () => {
    expect(messages("a: 1\n---\nb: 2\n")).toEqual([
      "2:1 The text contains several YAML documents. Put each workflow into its own file.",
    ])
    expect(messages("%YAML 1.1\n---\na: yes\n")).toEqual([
      "1:1 Only YAML 1.2 is supported. Remove the %YAML line.",
    ])
    expect(messages(" \n# nothing\n")).toEqual([
      "1:1 The document is empty. A workflow needs a name and nodes.",
    ])
  })

  it("gives syntax errors their place", () => {
    expect(messages("name: x\nnodes: [a, b\n")).toEqual([expect.stringMatching(/^3:1 Not valid YAML: .*\.$/)])
  })

  it.each([
    ["brackets", `a: ${"[".repeat(20_000)}${"]".repeat(20_000)}`],
    ["dashes", `a:\n  ${"- ".repeat(20_000)}x`],
    ["keys", `${"? ".repeat(20_000)}x`],
    ["brackets that nothing closes", `a: ${"[".repeat(2_000_000)}`],
  ])("survives 20,000 nested %s", (_, hostile) => {
    expect(messages(hostile)).toEqual([expect.stringContaining("Nested more than 100 levels deep")])
  })
})

describe("YAML that is wrong everywhere", () => {
  it("is not read to its end", () => {
    const faults = messages(`a: 1\n${"]\n".repeat(2_000_000)}`)
    expect(faults).toHaveLength(1000)
    expect(faults[0]).toMatch(/^2:1 Not valid YAML: Unexpected flow-seq-end token/)
  })

  it("is reported once per line, and only that line is read for advice", () => {
    const looked = vi.spyOn(String.prototype, "lastIndexOf")
    onTestFinished(() => looked.mockRestore())
    expect(messages(`- &a ${"&b ".repeat(8000)}\n- ]`)).toEqual([
      "1:6 Not valid YAML: A node can have at most one anchor.",
      '2:3 Not valid YAML: Unexpected flow-seq-end token in YAML stream: "]".',
    ])
    // Advice for each fault of a line reads the line as often as it has faults.
    expect(looked.mock.calls.filter(([sought]) => sought === "\n")).toHaveLength(2)
  })
})

describe("JSON documents", () => {
  it("gives the place of values, keys and characters of strings, escapes counted as written", () => {
    const document = parseDocument('{\n  "a": {"b": "q\\n\\u0041 {{ x }}"},\n  "l": [1, {"c": 2}]\n}')
    expect(document.format).toBe("json")
    expect(document.locate(["a", "b"])).toEqual({ line: 2, column: 14 })
    expect(document.locate(["a", "b"], { key: true })).toEqual({ line: 2, column: 9 })
    expect(document.locate(["a", "b"], { offset: 6 })).toEqual({ line: 2, column: 27 })
    expect(document.locate(["l", 1, "c"])).toEqual({ line: 3, column: 18 })
    expect(document.locate(["l", 7])).toEqual({ line: 3, column: 8 })
  })

  it("reports duplicate keys, also when written with escapes", () => {
    expect(messages('{"a": 1,\n "a": 2, "b": {"c": 1, "\\u0063": 2}}')).toEqual([
      '2:2 Duplicate key "a", first on line 1. Remove one of them.',
      '2:24 Duplicate key "c", first on line 2. Remove one of them.',
    ])
  })

  it.each([
    ['{"a": 1,}', '1:9 Not valid JSON: expected a key in double quotes, found "}".'],
    ['{"a" 1}', '1:6 Not valid JSON: expected ":", found "1".'],
    ['{"a": tru}', '1:7 Not valid JSON: expected a value, found "t".'],
    ["[1 2]", '1:4 Not valid JSON: expected "," or "]", found "2".'],
    ['{"a": 1} x', '1:10 Not valid JSON: expected the end of the document, found "x".'],
    ['{"a": "x', "1:7 Not valid JSON: this string is never closed."],
    ['{"a": "\\q"}', "1:8 Not valid JSON: the string contains an unknown escape."],
    ['{"a":\n"\t"}', '2:2 Not valid JSON: the string contains "\\t"; write it as an escape.'],
    ["[[", "1:3 Not valid JSON: expected a value, the text ends."],
  ])("explains %s", (text, message) => {
    expect(messages(text)).toEqual([message])
  })

  it("is taken for JSON only by its first character, unless the format is given", () => {
    expect(parseDocument(" \n[1]").format).toBe("json")
    expect(parseDocument("\uFEFF{}").format).toBe("json")
    expect(parseDocument("{a: 1}", { format: "yaml" }).value).toEqual({ a: 1 })
    expect(parseDocument("{a: 1}").problems).toHaveLength(1)
  })
})

describe("size", () => {
  it("refuses what is larger than the limit, and says which limit", () => {
    const [json] = parseDocument(`{"a": "${"x".repeat(100)}"}`, { limits: { documentBytes: 50 } }).problems
    expect(json).toMatchObject({
      code: "E101",
      line: 1,
      message: expect.stringContaining("(limit documentBytes)"),
    })
    const [yaml] = parseDocument(`a: ${"x".repeat(100)}`, { limits: { yamlBytes: 50 } }).problems
    expect(yaml?.message).toContain("(limit yamlBytes). Write it as JSON")
  })
})
