import { describe, expect, it } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { UmbraError } from "../../src/errors.ts"
import {
  compileTemplate,
  defaultLimits,
  isTemplate,
  TemplateSyntaxError,
  withNode,
} from "../../src/template/index.ts"
import { Fault, Run } from "../../src/template/run.ts"
import type { Limits } from "../../src/template/types.ts"
import { scopeOf } from "./scope.ts"

const scope = scopeOf({
  names: {
    input: { user: { name: "Ada", items: [1, 2] }, none: null, list: [1, 2, 3] },
    job: { id: "j1" },
    secrets: { KEY: "s3cret" },
  },
  nodes: {
    fetch: { status: 200, body: { x: [1, { y: "z" }] } },
    "a-b": { output: 5, own: 6 },
    skipped: { skipped: true },
    text: "plain",
  },
})
const render = (source: string): Json => compileTemplate(source).render(scope)

function failure(act: () => unknown): UmbraError {
  try {
    act()
  } catch (error) {
    if (error instanceof UmbraError) return error
    throw error
  }
  throw new Error("expected an error")
}

describe("J11 values", () => {
  it("a string that is one whole expression keeps its type", () => {
    expect(render("{{ fetch.body.x }}")).toEqual([1, { y: "z" }])
    expect(render("{{ fetch.body.x }}")).toBe((scope.node("fetch") as { body: { x: Json } }).body.x)
    expect(render("{{- fetch.status -}}")).toBe(200)
    expect(render("{{ input.none }}")).toBeNull()
    expect(compileTemplate("{{ 1 }}").isExpression).toBe(true)
  })

  it.each(["{{ fetch.status }} ", "{{ 1 }}{{ 2 }}", "{% if 1 %}{{ 1 }}{% endif %}", "{{ 1 -}} {# c #}"])(
    "%s is text",
    source => {
      expect(compileTemplate(source).isExpression).toBe(false)
      expect(typeof render(source)).toBe("string")
    },
  )

  it("prints what is not a string as JSON inside text", () => {
    expect(render("{{ fetch.body }} {{ true }} {{ none }} {{ 1.5 }} {{ text }}")).toBe(
      '{"x":[1,{"y":"z"}]} true null 1.5 plain',
    )
  })

  it("an inline if without else is empty in text and missing as a value", () => {
    expect(render("a{{ 'x' if false }}b")).toBe("ab")
    expect(failure(() => render("{{ 'x' if false }}")).code).toBe("E201")
  })
})

describe("J11 node outputs", () => {
  it.each([
    ["{{ fetch.output.status }}", 200],
    ["{{ fetch.output }}", { status: 200, body: { x: [1, { y: "z" }] } }],
    ['{{ nodes["fetch"].output.status }}', 200],
    ["{{ nodes.fetch['output'].status }}", 200],
    ["{{ nodes[input.which | default('fetch')].output.status }}", 200],
    ['{{ nodes["a-b"].output }}', 5],
    ['{{ nodes["a-b"].own }}', 6],
    ["{{ text.output }}", "plain"],
    ["{{ nodes | length }}", 4],
    ["{{ nodes.keys() | join(',') }}", "fetch,a-b,skipped,text"],
  ] as const)("%s", (source, expected) => {
    expect(render(source)).toEqual(expected)
  })

  it("`output` stands for the value only right behind a node", () => {
    expect(failure(() => render("{{ fetch.body.output }}")).code).toBe("E201")
    expect(failure(() => render("{{ fetch.output.output.output }}")).code).toBe("E201")
    expect(failure(() => render("{{ input.output }}")).code).toBe("E201")
  })

  it("reads only the requested node", () => {
    const asked: string[] = []
    const watching = {
      ...scope,
      node: (id: string) => {
        asked.push(id)
        return scope.node(id)
      },
    }
    compileTemplate('{{ nodes["fetch"].status }}').render(watching)
    expect(asked).toEqual(["fetch"])
  })
})

describe("J11 J12 missing values", () => {
  it("the error names node, template, the missing name and what was available", () => {
    const error = withNode(
      failure(() => render("{{ fetch.nope }}")),
      "summarise",
    )
    expect(error.code).toBe("E201")
    expect(error.details).toMatchObject({
      node: "summarise",
      template: "{{ fetch.nope }}",
      missing: "fetch.nope",
      available: ["status", "body"],
    })
    for (const part of ["summarise", "{{ fetch.nope }}", "fetch.nope", "status, body"]) {
      expect(error.message).toContain(part)
    }
  })

  it("an unknown root lists the names there are", () => {
    expect(failure(() => render("{{ nope.x }}")).details.available).toEqual([
      "input",
      "job",
      "secrets",
      "nodes",
      "fetch",
      "a-b",
      "skipped",
      "text",
    ])
  })

  it.each([
    "{% if nope %}{% endif %}",
    "{{ nope or 1 }}",
    "{{ nope == 1 }}",
    "{{ [nope] }}",
    "{{ 1 if nope else 2 }}",
    "{{ nope | upper }}",
    "{% for x in nope %}{% endfor %}",
  ])("%s is an error", source => {
    expect(failure(() => render(source)).code).toBe("E201")
  })

  it.each([
    ["{{ nope | default('d') }}", "d"],
    ["{{ nope.a.b.c | default('d') }}", "d"],
    ["{{ skipped.body.x | default('d') }}", "d"],
    ["{{ input.none.x.y | default('d') }}", "d"],
    ["{{ nodes[nope].x | default('d') }}", "d"],
    ["{{ nope.a is defined }}", false],
    ["{{ nope.a is undefined }}", true],
    ["{{ skipped.skipped }}", true],
  ] as const)("%s is %j", (source, expected) => {
    expect(render(source)).toBe(expected)
  })
})

describe("J11 nothing but data is reachable", () => {
  it.each(["constructor", "__proto__", "prototype", "toString", "length", "hasOwnProperty", "at"])(
    "%s is unknown",
    name => {
      for (const of of ["input", "input.list", "text", "fetch", "(1)", "nodes", "loop_less", "job.id"]) {
        for (const source of [`{{ ${of}.${name} }}`, `{{ ${of}["${name}"] }}`]) {
          expect(failure(() => render(source)).code, source).toMatch(/E20[12]/)
        }
      }
      expect(failure(() => render(`{{ ${name} }}`)).code).toBe("E201")
      expect(failure(() => render(`{{ input.${name}() }}`)).code).toBe("E110")
      expect(failure(() => render(`{{ input.list | map(attribute="${name}") }}`)).code).toBe("E201")
    },
  )

  it("a key called __proto__ is data like any other", () => {
    const made = render("{{ {'__proto__': {'x': 1}} }}") as object
    expect(Object.getPrototypeOf(made)).toBe(Object.prototype)
    expect(Object.keys(made)).toEqual(["__proto__"])
  })

  it("a mapping's own key is read without brackets, the method is called with them", () => {
    expect(render("{{ input.user.items }}")).toEqual([1, 2])
    expect(render("{{ input.user.items() | map('first') | list }}")).toEqual(["name", "items"])
  })

  it("errors of a template that reads secrets show no value", () => {
    for (const source of [
      "{{ nodes[secrets.KEY] }}",
      "{{ {secrets.KEY: 1}.x }}",
      "{{ secrets.KEY | fromjson }}",
      "{{ secrets.KEY + 1 }}",
      "{{ [input] | map(attribute=secrets.KEY) }}",
      "{{ [1] | map(secrets.KEY) }}",
      "{{ [1] | select(secrets.KEY) }}",
      "{{ secrets.KEY | round }}",
    ]) {
      const error = failure(() => render(source))
      expect(JSON.stringify([error.message, error.details]), source).not.toContain("s3cret")
    }
  })
})

describe("differences from Jinja2 (docs/reference/templates.md)", () => {
  it.each([
    ["{{ [1, 2] | map('string') }}", ["1", "2"]],
    ["{{ (1, 2) == [1, 2] }}", true],
    ["{{ 4 / 2 }}", 2],
    ["{{ [[1], [1]] | unique }}", [[1]]],
    ["{{ {1: 'a'}[1] }}", "a"],
    ["{{ {'b': '<é>', 'a': 1} | tojson }}", '{"b":"<é>","a":1}'],
    ["{{ {'a': [1]} | tojson(indent=2) }}", '{\n  "a": [\n    1\n  ]\n}'],
    ["x\n{{ 1 }}\n", "x\n1\n"],
  ] as const)("%s", (source, expected) => {
    expect(render(source)).toEqual(expected)
  })

  it("whole numbers are exact up to 2^53, and what cannot be held is an error", () => {
    expect(render("{{ 2 ** 53 - 1 }}")).toBe(Number.MAX_SAFE_INTEGER)
    expect(failure(() => render("{{ 10.0 ** 400 }}")).code).toBe("E202")
    expect(failure(() => render("{{ 1 / 0 }}")).message).toContain("division by zero")
  })
})

describe("syntax errors say what and where", () => {
  it.each([
    ["{{ 1 + }}", 1, 8, "expected a value"],
    ["a\n{{ x | uper }}", 2, 8, 'did you mean "upper"'],
    ["{{ x is defned }}", 1, 9, 'did you mean "defined"'],
    ["{{ rang(3) }}", 1, 4, 'did you mean "range"'],
    ["{{ x.item() }}", 1, 6, 'did you mean "items"'],
    ["{{ xs | select('od') }}", 1, 16, 'did you mean "odd"'],
    ["{{ x | replace('a') }}", 1, 8, 'needs its argument "new"'],
    ["{{ x | join(sep=',') }}", 1, 13, "it has d, attribute"],
    ["{% if x %}a", 1, 4, "never closed"],
    ["{% fro x in y %}", 1, 4, 'did you mean "for"'],
    ["{% macro a() %}", 1, 4, "not part of Umbra"],
    ["{{ 'abc }}", 1, 4, "never closed"],
    ["{# abc", 1, 1, "never closed"],
    ["{{ x", 1, 5, "end of the template"],
  ])("%s", (source, line, column, text) => {
    const error = failure(() => compileTemplate(source))
    expect(error).toBeInstanceOf(TemplateSyntaxError)
    expect(error.code).toBe("E110")
    expect(error).toMatchObject({ line, column })
    expect(error.message).toContain(text)
  })
})

describe("limits", () => {
  it.each([
    ["{% for i in range(100) %}{% endfor %}", { steps: 50 }],
    ["{{ 'x' * 100 }}", { characters: 99 }],
    ["{{ range(100) | list }}", { items: 99 }],
    ["{{ [[[[1]]]] }}", { depth: 3 }],
    ["{{ '[[[[1]]]]' | fromjson }}", { depth: 3 }],
  ])("%s stops at %j with E203", (source, limit) => {
    const limits = { ...defaultLimits, ...limit }
    expect(failure(() => compileTemplate(source).render(scope, limits)).code).toBe("E203")
    expect(() => render(source)).not.toThrow()
  })

  it.each<[what: string, source: (count: number) => string, most: number]>([
    ["characters", count => "x".repeat(count), 1_000_000],
    ["brackets in each other", count => `{{ ${"[".repeat(count)}1${"]".repeat(count)} }}`, 99],
    ["conditions in each other", count => `${"{% if 1 %}".repeat(count)}x${"{% endif %}".repeat(count)}`, 99],
    ["sums in a row", count => `{{ 1${" + 1".repeat(count)} }}`, 197],
    ["filters in a row", count => `{{ 'a'${" | upper".repeat(count)} }}`, 197],
  ])("a template may have so many %s and no more", (_, source, most) => {
    expect(() => compileTemplate(source(most))).not.toThrow()
    expect(() => compileTemplate(source(most + 1))).toThrow(TemplateSyntaxError)
  })

  it.each<[what: string, use: (run: Run) => unknown, name: keyof Limits, cost: number]>([
    ["text", run => run.text(10), "characters", 10],
    ["a list", run => run.items(100), "items", 108],
    ["making a list", run => run.items(100), "steps", 26],
    ["a short scan", run => run.scan(31), "steps", 1],
    ["a longer scan", run => run.scan(32), "steps", 2],
    ["the keys of a record", run => run.keys(mapping(64)), "steps", 17],
    ["the keys of a table", run => run.keys(mapping(65)), "steps", 66],
    ["depth", run => run.nested(3), "depth", 3],
  ])("%s has its exact cost", (_, use, name, cost) => {
    const run = (limit: number) => new Run(scope, { ...defaultLimits, [name]: limit })
    expect(() => use(run(cost))).not.toThrow()
    expect(() => use(run(cost - 1))).toThrow(Fault)
  })

  it("has the defaults that docs/reference/limits.md promises", () => {
    expect(defaultLimits).toEqual({
      ...{ steps: 200_000, characters: 5_000_000, items: 1_000_000, depth: 200 },
      bytes: 16 * 1024 * 1024,
    })
  })
})

/** With so many keys. */
function mapping(count: number): Record<string, Json> {
  return Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, n]))
}

describe("compiling", () => {
  it("the same source compiles once", () => {
    expect(compileTemplate("{{ once }}")).toBe(compileTemplate("{{ once }}"))
  })

  it("isTemplate sees the start of a tag", () => {
    expect(["{{", "a{%", "{ {#"].every(isTemplate)).toBe(true)
    expect(["", "{", "{ {", "}}", '{"a": {"b": 1}}'].some(isTemplate)).toBe(false)
  })
})
