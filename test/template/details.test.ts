/** Rules of templates that concern one operator or filter each. */
import { describe, expect, it } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { UmbraError } from "../../src/errors.ts"
import { compileTemplate, defaultLimits } from "../../src/template/index.ts"
import { didYouMean, editDistance } from "../../src/template/nearest.ts"
import { Fault, Run } from "../../src/template/run.ts"
import type { Limits } from "../../src/template/types.ts"
import { scopeOf } from "./scope.ts"

const scope = scopeOf({ names: { input: { list: [1, 2] } } })
const render = (source: string): Json => compileTemplate(source).render(scope)

function messageOf(source: string): string {
  try {
    return JSON.stringify(render(source))
  } catch (error) {
    return error instanceof UmbraError ? error.message : `not an UmbraError: ${String(error)}`
  }
}

describe("J11 operators", () => {
  it("not in is one operator", () => {
    expect(render("{{ 3 not in input.list }}")).toBe(true)
    expect(render("{{ 1 not in input.list }}")).toBe(false)
    expect(render("{{ 1 not in input.list or 2 in input.list }}")).toBe(true)
  })

  it("+ says how text is joined only when there is text", () => {
    const hint = "~ joins as text"
    expect(messageOf('{{ 1 + "a" }}')).toContain(hint)
    expect(messageOf('{{ "a" + 1 }}')).toContain(hint)
    expect(messageOf("{{ 1 + input.list }}")).not.toContain(hint)
    expect(messageOf('{{ "a" - 1 }}')).not.toContain(hint)
  })
})

describe("J11 filters", () => {
  it("round takes numbers and booleans, and says what else to do", () => {
    expect(render("{{ 2.6 | round }}")).toBe(3)
    expect(render("{{ true | round }}")).toBe(1)
    expect(messageOf('{{ "2.6" | round }}')).toContain("round needs a number, not a string")
    expect(messageOf("{{ input.list | round }}")).toContain("round needs a number, not a list")
  })

  it("truncate names the parameter that is wrong", () => {
    expect(messageOf('{{ "abc" | truncate(2, end=input.list) }}')).toMatch(/\bend\b/)
    expect(messageOf('{{ "abc" | truncate("x") }}')).toMatch(/\blength\b/)
  })
})

describe("the size of what a template inserts", () => {
  const inserted = (value: Json, bytes: number) => {
    const run = new Run(scope, { ...defaultLimits, bytes })
    run.insert(value)
  }

  it.each([
    ["text", "x".repeat(100)],
    ["a list", new Array(50).fill(1)],
    ["a mapping", Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`key ${n}`, n]))],
    ["a list in a mapping", { list: new Array(50).fill(1) }],
    ["mappings in a list", new Array(10).fill({ a: { b: 1.5 } })],
  ])("counts %s", (_, value) => {
    expect(() => inserted(value, 50)).toThrow(Fault)
    expect(() => inserted(value, 1000)).not.toThrow()
  })

  it("counts each time that a value is inserted, also a large one that it has counted before", () => {
    const large = new Array(5000).fill(1)
    const run = new Run(scope, { ...defaultLimits, bytes: 25_000 })
    run.insert(large)
    run.insert(large)
    expect(() => run.insert(large)).toThrow(/exceeds 25,000 bytes/)
  })
})

describe("the cost of templates", () => {
  /** The smallest limit with which it renders. */
  const costOf = (source: string, name: keyof Limits, input: Json = null): number => {
    const template = compileTemplate(source)
    const of = scopeOf({ names: { input } })
    const fits = (limit: number) => {
      try {
        template.render(of, { ...defaultLimits, [name]: limit })
        return true
      } catch (error) {
        if (error instanceof UmbraError && error.code === "E203") return false
        throw error
      }
    }
    let [low, high] = [0, 100_000]
    while (low < high) {
      const middle = (low + high) >> 1
      if (fits(middle)) high = middle
      else low = middle + 1
    }
    return low
  }
  const more = (source: string, name: keyof Limits, small: Json, large: Json) =>
    costOf(source, name, large) - costOf(source, name, small)
  const mappings = (count: number) => new Array(count).fill({ a: 1, b: 2 })
  const keys = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, n]))

  it("of sorting by several attributes grows by all of them", () => {
    const byTwo = more("{{ input | sort(attribute='a,b') | length }}", "items", mappings(10), mappings(20))
    const byOne = more("{{ input | sort(attribute='a') | length }}", "items", mappings(10), mappings(20))
    // The keys of the second attribute, and a list of 2 for each item, which counts as 8 more.
    expect(byTwo - byOne).toBeGreaterThanOrEqual(10 * (2 + 8))
  })

  it("of comparing mappings is at least three steps for each key", () => {
    const equal = "{{ input.a == input.b }}"
    const pair = (count: number) => ({ a: keys(count), b: keys(count) })
    expect(more(equal, "steps", pair(10), pair(20))).toBeGreaterThanOrEqual(3 * 10)
  })

  it("of an operation that is named by a text is three steps for each item", () => {
    const list = (count: number) => new Array(count).fill(1)
    const named = more("{{ input | map('abs') | length }}", "steps", list(40), list(80))
    const plain = more("{{ input | list | length }}", "steps", list(40), list(80))
    // Two for the item, one for the operation.
    expect(named - plain).toBeGreaterThanOrEqual(3 * 40)
  })

  it("of cutting text includes reading all of it", () => {
    const cut = "{{ input[0:1] }}"
    // Once to count its characters, once to cut it: a step for 32 characters.
    expect(more(cut, "steps", "x".repeat(3200), "x".repeat(6400))).toBe(200)
  })

  it("of JSON is its length, also indented and nested", () => {
    const nested = { a: { b: { c: [1] } } }
    for (const source of ["{{ input | tojson }}", "{{ input | tojson(indent=4) }}"]) {
      const text = compileTemplate(source).render(scopeOf({ names: { input: nested } })) as string
      const cost = costOf(source, "characters", nested)
      expect(cost).toBeGreaterThanOrEqual(text.length)
      expect(cost).toBeLessThan(2 * text.length + 10)
    }
  })
})

describe("what a template inserts", () => {
  const inserted = (value: Json, bytes = 1000) => new Run(scope, { ...defaultLimits, bytes }).insert(value)

  it("nests at most 500 levels", () => {
    const nested = (levels: number) => {
      let value: Json = 1
      for (let i = 0; i < levels; i++) value = [value]
      return value
    }
    expect(() => inserted(nested(500), 5000)).not.toThrow()
    expect(() => inserted(nested(501), 5000)).toThrow(/nests deeper than 500 levels/)
  })

  it("counts what the members of a mapping contain", () => {
    const text = "x".repeat(60)
    expect(() => inserted({ a: text }, 80)).not.toThrow()
    expect(() => inserted({ a: text, b: text }, 80)).toThrow(Fault)
  })

  it("counts the first item of a list too", () => {
    expect(() => inserted(["x".repeat(100)], 80)).toThrow(Fault)
  })
})

describe("J11 text", () => {
  it.each([
    ["a tag right behind a brace", "{a{{ 1 }}", "{a1"],
    ["white space of Python before a tag", "a\u1680{{- 1 }}", "a1"],
    ["a zero width space stays", "a\u200b{{- 1 }}", "a\u200b1"],
    [
      "text that is one character longer than truncate allows",
      "{{ 'abcdefghij' | truncate(9, leeway=0) }}",
      "abcdef...",
    ],
    ["text that is as long as truncate allows", "{{ 'abcdefghij' | truncate(5, leeway=5) }}", "abcdefghij"],
    ["characters that need escapes in a query", "{{ {'a b': '/ +'} | urlencode }}", "a+b=%2F+%2B"],
    ["emptied text that is replaced everywhere", "{{ 'ab' | replace('', '-') }}", "-a-b-"],
    ["emptied text that is replaced once", "{{ 'ab' | replace('', '-', 1) }}", "-ab"],
  ])("%s", (_, source, expected) => {
    expect(render(source)).toBe(expected)
  })

  it("has the fields of a loop", () => {
    const fields = "{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.last }} "
    expect(render(`{% for x in input.list %}${fields}{% endfor %}`)).toBe("021false 110true ")
  })
})

describe("J11 numbers", () => {
  it.each([
    ["{{ '12' | int(7, base=2) }}", 12],
    ["{{ '0x1f' | int(7, base=0) }}", 31],
    ["{{ '0x1f' | int(7, base=16) }}", 31],
    ["{{ 25 | round(-1) }}", 20],
    ["{{ 35 | round(-1) }}", 40],
    ["{{ 26 | round(-1) }}", 30],
    ["{{ -input.list[1] }}", -2],
    ["{{ range(0, 5, 2) }}", [0, 2, 4]],
    ["{{ [1, 2, 3, 4][1:3] }}", [2, 3]],
    ["{{ 'a\\nb' | indent(2) }}", "a\n  b"],
    ["{{ input.list[-1] }}", 2],
    ["{{ [1, 2, 3, 4][0:4:3] }}", [1, 4]],
    ["{{ 'ab'[1:9] }}", "b"],
    ["{{ 'a' * 3 }}", "aaa"],
    ["{{ [] == {} }}", false],
    ["{{ {} == [] }}", false],
  ])("%s is %j", (source, expected) => {
    expect(render(source)).toEqual(expected)
  })
})

describe("messages of templates", () => {
  it.each([
    ["{{ 1 | tojson(indent='x') }}", /indent must be/],
    ["{{ 'a'.startswith(1) }}", /prefix must be/],
    ["{% set False = 1 %}", /"False" cannot be assigned to/],
    ["{{ 'a' | indent(1001) }}", /at most 1000/],
  ])("%s", (source, expected) => {
    expect(messageOf(source)).toMatch(expected)
  })

  it("of a syntax error show 40 characters around it", () => {
    const long = `${"a".repeat(30)}{{ 1 + }}${"b".repeat(60)}`
    expect(messageOf(long)).toContain(`…${JSON.stringify(long.slice(17, 57))}…`)
  })

  it("of a missing name show 20 of those there are", () => {
    const input = Object.fromEntries(Array.from({ length: 25 }, (_, n) => [`k${n}`, n]))
    expect(() => compileTemplate("{{ input.nope }}").render(scopeOf({ names: { input } }))).toThrow(
      /input has k0, .*, k19 and 5 more/,
    )
  })

  it("of a fault behind a long first line name the line and the column", () => {
    expect(messageOf("line\n\n  {{ nope }}")).toContain("(line 3, column 6)")
  })
})

describe("the nearest name", () => {
  it.each([
    ["abc", "abc", 0],
    ["abc", "abd", 1],
    ["abc", "abcd", 1],
    ["abcd", "abc", 1],
    ["abc", "acb", 1],
    ["abcd", "badc", 2],
    ["aab", "aba", 1],
    ["abc", "xyz", 3],
    ["ab", "ba", 1],
    ["aac", "bac", 1],
    ["abcc", "abdc", 1],
    ["", "abc", 3],
  ])("of %s and %s is %i mistakes away", (a, b, distance) => {
    expect(editDistance(a, b, 9)).toBe(distance)
  })

  it("is the closest, not the last that is close", () => {
    expect(didYouMean("uper", ["super", "upper", "lower"])).toContain('"super"')
    expect(didYouMean("abcdef", ["abcdeg", "abcdgg"])).toContain('"abcdeg"')
  })
})
