/** Inputs are checked without holding up the event loop, and each owner has its own time for it. */
import { describe, expect, it, vi } from "vitest"
import type { JsonObject } from "../../src/core/json.ts"
import { InputChecks } from "../../src/definition/input/checks.ts"

const threads = vi.hoisted(() => ({ started: 0 }))

vi.mock("../../src/thread.ts", async original => {
  const { startThread, ...rest } = await original<typeof import("../../src/thread.ts")>()
  const counted: typeof startThread = (...given) => {
    threads.started++
    return startThread(...given)
  }
  return { ...rest, startThread: counted }
})

const plain: JsonObject = { properties: { a: { type: "string" } } }
const pattern: JsonObject = { properties: { a: { type: "string", pattern: "^(a+)+$", default: "aa" } } }
/** As a version may have it that was stored before lookaheads were refused. */
const stored: JsonObject = { properties: { a: { pattern: "^(?=a)(a+)+$" } } }
const endless = { a: `${"a".repeat(60)}!` }

const by = { owner: "one" }

describe("where inputs are checked", () => {
  it("small ones of plain schemas here, without a thread", async () => {
    const checks = new InputChecks()
    const before = threads.started
    expect(await checks.check(plain, { a: "x" }, by)).toEqual({ value: { a: "x" } })
    expect(await checks.check(plain, { a: 1 }, by)).toMatchObject({ problems: [{ path: "input.a" }] })
    expect(await checks.check(null, undefined, by)).toEqual({ value: {} })
    expect(await checks.check(plain, { a: undefined }, by)).toEqual({ value: {} })
    expect(threads.started).toBe(before)
  })

  it("those with patterns, formats and unique items in a thread, with the same answers", async () => {
    const checks = new InputChecks()
    const check = (schema: JsonObject, input: unknown) => {
      const result = checks.check(schema, input, by)
      expect(result).toBeInstanceOf(Promise)
      return result
    }
    expect(await check(pattern, { a: "aaa" })).toEqual({ value: { a: "aaa" } })
    expect(await check(pattern, {})).toEqual({ value: { a: "aa" } })
    expect(await check(pattern, endless)).toEqual({
      problems: [{ path: "input.a", message: "String does not match pattern." }],
      more: 0,
    })
    const unique = { properties: { a: { uniqueItems: true }, d: { format: "date" } } }
    const strings = Array.from({ length: 50_000 }, (_, i) => `s${i}`)
    expect(await check(unique, { a: strings, d: "2026-02-28" })).toEqual({
      value: { a: strings, d: "2026-02-28" },
    })
    expect(await check(unique, { a: [1, 1], d: "2026-02-30" })).toMatchObject({ problems: [{}, {}] })
  })

  it("plain ones that take many steps too", async () => {
    const wide = {
      properties: { a: { items: { anyOf: Array.from({ length: 200 }, () => ({ type: "null" })) } } },
    }
    const result = new InputChecks().check(wide, { a: Array(1000).fill(1) }, by)
    expect(result).toBeInstanceOf(Promise)
    expect(await result).toMatchObject({ more: 900 })
  })

  it("many at a time, each with its own answer", async () => {
    const checks = new InputChecks()
    const results = await Promise.all(
      Array.from({ length: 500 }, (_, i) =>
        checks.check(
          { properties: { a: { pattern: `^${i % 7}$` } } },
          { a: `${i % 10}` },
          { owner: `o${i % 3}` },
        ),
      ),
    )
    for (const [i, { problems }] of results.entries())
      expect(problems === undefined, `${i}`).toBe(i % 7 === i % 10)
  })
})

describe("time for checks", () => {
  it("a check that has no end is refused after its time, and the thread continues", async () => {
    const checks = new InputChecks({ longMs: 100 })
    expect(await checks.check(stored, endless, by)).toEqual({
      problems: [{ path: "input", message: expect.stringContaining("could not be checked within 100 ms") }],
      more: 0,
    })
    expect(await checks.check(stored, { a: "aaa" }, by)).toEqual({ value: { a: "aaa" } })
  })

  it("E614 is bounded for a request", async () => {
    const checks = new InputChecks({ longMs: 100, requestMs: 250, ownerMs: 1e6 })
    const request = { spentMs: 0 }
    const results = await Promise.allSettled(
      Array.from({ length: 30 }, () => checks.check(stored, endless, { ...by, request })),
    )
    const refused = results.filter(({ status }) => status === "rejected")
    expect(refused.length).toBeGreaterThan(25)
    for (const each of refused) expect((each as PromiseRejectedResult).reason).toMatchObject({ code: "E614" })
    expect(await checks.check(stored, { a: "a" }, { ...by, request: { spentMs: 0 } })).toMatchObject({
      value: {},
    })
  })

  it("E614 is bounded for an owner, comes back as time goes by, and is its own", async () => {
    let now = 0
    const checks = new InputChecks({ longMs: 100, ownerMs: 200, ownerMsPerSecond: 50, now: () => now })
    const attack = await Promise.allSettled(
      Array.from({ length: 20 }, () => checks.check(stored, endless, by)),
    )
    const refused = attack.flatMap(each => (each.status === "rejected" ? [each.reason] : []))
    expect(refused.length).toBeGreaterThan(15)
    expect(refused[0]).toMatchObject({
      code: "E614",
      status: 503,
      details: { retry_after: expect.any(Number) },
    })
    await expect(checks.check(pattern, { a: "a" }, by)).rejects.toMatchObject({ code: "E614" })
    expect(await checks.check(pattern, { a: "a" }, { owner: "other" })).toEqual({ value: { a: "a" } })
    expect(await checks.check(plain, { a: "a" }, by)).toEqual({ value: { a: "a" } })
    now += refused[0].details.retry_after * 1000 + 10_000
    expect(await checks.check(pattern, { a: "a" }, by)).toEqual({ value: { a: "a" } })
  })

  it("owners take turns: a short check of one is not behind the long ones of another", async () => {
    const checks = new InputChecks({ longMs: 300, ownerMs: 1e6, requestMs: 1e6 })
    await checks.check(pattern, { a: "a" }, by)
    let isOver = false
    const attack = Promise.allSettled(
      Array.from({ length: 10 }, () => checks.check(stored, endless, { owner: "attacker" })),
    ).then(() => {
      isOver = true
    })
    for (let n = 0; n < 3; n++) {
      expect(await checks.check(pattern, { a: "a" }, { owner: "other" })).toEqual({ value: { a: "a" } })
      expect(isOver).toBe(false)
    }
    await attack
  })
})
