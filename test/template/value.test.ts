import { describe, expect, it } from "vitest"
import { UmbraError } from "../../src/errors.ts"
import { compileValue, defaultLimits } from "../../src/template/index.ts"
import { scopeOf } from "./scope.ts"

const scope = scopeOf({ names: { input: { a: 1, xs: [1] }, secrets: { KEY: "k" } }, nodes: { n: { x: 2 } } })

describe("J11 values with templates", () => {
  it("renders strings at any depth and shares the rest with the source", () => {
    const source = {
      "{{ key }}": "{{ input.a }}",
      deep: [{ t: "v{{ n.x }}" }, { plain: [1] }],
      other: { b: 1 },
    }
    const { value, problems } = compileValue(source)
    expect(problems).toEqual([])
    expect(value.templates.map(({ path }) => path)).toEqual([["{{ key }}"], ["deep", 0, "t"]])
    const rendered = value.render(scope) as typeof source
    expect(rendered).toEqual({ "{{ key }}": 1, deep: [{ t: "v2" }, { plain: [1] }], other: { b: 1 } })
    expect(Object.keys(rendered)).toEqual(Object.keys(source))
    expect(rendered.other).toBe(source.other)
    expect(rendered.deep[1]).toBe(source.deep[1])
    expect(source.deep[0]).toEqual({ t: "v{{ n.x }}" })
  })

  it("returns the very same value when there is no template in it", () => {
    const source = { a: ["x", "{", { b: null }] }
    expect(compileValue(source).value.render(scope)).toBe(source)
    expect(compileValue("x").value.render(scope)).toBe("x")
  })

  it("collects every problem with its path and still compiles the rest", () => {
    const { value, problems } = compileValue({ a: "{{", b: ["{{ input.a }}", "{% if %}"] })
    expect(problems.map(({ path, error }) => [path, error.code])).toEqual([
      [["a"], "E110"],
      [["b", 1], "E110"],
    ])
    expect(value.templates).toHaveLength(1)
  })

  it("a value nested too deeply is a problem, not a crash", () => {
    let deep: unknown = "{{ input.a }}"
    for (let i = 0; i < 100_000; i++) deep = [deep]
    expect(compileValue(deep as never).problems).toHaveLength(1)
  })

  it("hands templates that read secrets to `late`, and renders them like others without it", () => {
    const { value } = compileValue({ key: "Bearer {{ secrets.KEY }}", a: "{{ input.a }}" })
    const asked: unknown[] = []
    const rendered = value.render(scope, {
      late: (template, path) => {
        asked.push([template.source, path])
        return "later"
      },
    })
    expect(rendered).toEqual({ key: "later", a: 1 })
    expect(asked).toEqual([["Bearer {{ secrets.KEY }}", ["key"]]])
    expect(value.render(scope)).toEqual({ key: "Bearer k", a: 1 })
  })

  it("encodes the value of every expression except constants and plain secrets", () => {
    const { value } = compileValue("{{ input.a }}/{{ secrets.KEY }}/{{ 'c' }}/{{ n.x }}")
    expect(value.render(scope, { encode: text => `<${text}>` })).toBe("<1>/k/c/<2>")
  })

  it("errors carry the path, and all templates of a value share one budget", () => {
    const failing = compileValue({ a: ["{{ n.nope }}"] }).value
    expect(() => failing.render(scope)).toThrow(
      expect.objectContaining({ code: "E201", details: expect.objectContaining({ path: ["a", 0] }) }),
    )
    const many = compileValue(Array.from({ length: 50 }, () => "{{ 'x' * 100 }}")).value
    expect(() => many.render(scope, { limits: { ...defaultLimits, characters: 1000 } })).toThrow(UmbraError)
    expect(() => many.render(scope)).not.toThrow()
  })

  it("a key called __proto__ stays a key", () => {
    const source = JSON.parse('{"__proto__": "{{ input.a }}", "b": {"__proto__": 1}}')
    const rendered = compileValue(source).value.render(scope) as object
    expect(Object.getPrototypeOf(rendered)).toBe(Object.prototype)
    expect(JSON.stringify(rendered)).toBe('{"__proto__":1,"b":{"__proto__":1}}')
  })
})
