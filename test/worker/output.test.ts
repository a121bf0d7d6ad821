import { describe, expect, it } from "vitest"
import { UmbraError } from "../../src/errors.ts"
import { checkOutput } from "../../src/worker/output.ts"
import fc from "../support/property.ts"

const check = (value: unknown, maxBytes = 1_000_000) => checkOutput(value, { maxBytes, what: "output" })

function refusal(value: unknown, maxBytes?: number): UmbraError {
  try {
    check(value, maxBytes)
  } catch (error) {
    if (error instanceof UmbraError) return error
  }
  throw new Error("it was not refused")
}

class Point {
  x = 1
}

describe("output", () => {
  it("any JSON passes as it is", () => {
    fc.assert(
      fc.property(fc.jsonValue(), value => {
        const { value: stored, text } = check(value)
        expect(text).toBe(JSON.stringify(value))
        expect(JSON.stringify(stored)).toBe(text)
      }),
    )
  })

  it("nothing returned is null", () => {
    expect(check(undefined)).toEqual({ value: null, text: "null" })
  })

  it("is no alias of what the handler holds", () => {
    const held = { list: [1] }
    const { value } = check(held)
    held.list.push(2)
    expect(value).toEqual({ list: [1] })
  })

  it("is what the journal returns: JSON has one zero", () => {
    expect(Object.is(check(-0).value, 0)).toBe(true)
  })

  it("a list that turns itself into nothing is refused", () => {
    expect(refusal(Object.assign([1], { toJSON: () => undefined })).code).toBe("E404")
  })

  it("drops fields that are undefined", () => {
    expect(check({ a: undefined, b: 1 }).text).toBe('{"b":1}')
  })

  it.each([
    ["a function", { a: { f: () => 1 } }, "a.f", "a function"],
    ["a bigint", [1n], "[0]", "a bigint"],
    ["NaN", { rate: Number.NaN }, "rate", "the number NaN"],
    ["Infinity", [[Number.POSITIVE_INFINITY]], "[0][0]", "the number Infinity"],
    ["a Date", { at: new Date(0) }, "at", "an instance of Date"],
    ["a Map", { m: new Map() }, "m", "an instance of Map"],
    ["a Buffer", Buffer.from("x"), "", "an instance of Buffer"],
    ["a class instance", { p: [new Point()] }, "p[0]", "an instance of Point"],
    ["a symbol", { s: Symbol("s") }, "s", "a symbol"],
    ["undefined in a list", [1, undefined], "[1]", "undefined"],
    ["a hole in a list", new Array(1), "[0]", "undefined"],
    ["an own toJSON", { toJSON: (): number => 1 }, "toJSON", "a function"],
  ])("%s is refused with its path (E404)", (_, value, path, what) => {
    const error = refusal(value)
    expect(error.code).toBe("E404")
    expect(error.details).toEqual({ path })
    expect(error.message).toContain(what)
  })

  it("a ring and endless nesting are distinguished", () => {
    const ring: Record<string, unknown> = {}
    ring.a = { b: ring }
    expect(refusal(ring).message).toContain("contains itself")
    let deep: unknown = 1
    for (let i = 0; i < 10_000; i++) deep = [deep]
    expect(refusal(deep).message).toContain("nesting deeper than")
  })

  it("too much is refused (E405), by bytes and not by characters", () => {
    expect(refusal("x".repeat(1_000), 1_001).code).toBe("E405")
    expect(check("x".repeat(999), 1_001).text).toHaveLength(1_001)
    expect(refusal("ü".repeat(600), 1_001).code).toBe("E405")
  })

  it.each([
    ["output", ", or raise the limit (UMBRA_MAX_OUTPUT_BYTES)."],
    ["preview", ", or raise the limit (UMBRA_MAX_PREVIEW_BYTES)."],
    ["message", ", or raise the limit (UMBRA_MAX_MESSAGE_BYTES)."],
    ["stored value", "return a reference to it."],
  ])("too large a %s is told with the setting that bounds it", (what, end) => {
    const message = new RegExp(`${end.replace(/[().]/g, "\\$&")}$`)
    expect(() => checkOutput("x".repeat(20), { maxBytes: 10, what })).toThrow(message)
  })

  it("shared parts that would fill the memory as text are refused at once", () => {
    let shared: unknown = ["x"]
    for (let i = 0; i < 60; i++) shared = [shared, shared]
    expect(refusal(shared, 16_000_000).code).toBe("E405")
  })
})
