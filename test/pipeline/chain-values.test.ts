/** Values that one adapter of a chain answers for the next are checked as those on a queue are (E404). */
import { afterEach, describe, expect, it } from "vitest"
import type { WorkflowSource } from "../../src/jobs/register.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"
import { mustBeJson } from "../../src/worker/output.ts"
import { adapter, recorder, route } from "./scene.ts"

let umbra: Umbra | undefined
afterEach(async () => {
  await umbra?.close()
  umbra = undefined
})

class Money {
  readonly cents = 5
}
const ring: { self?: unknown } = {}
ring.self = { again: [ring] }

const wrong: readonly (readonly [name: string, value: unknown, path: string, what: RegExp])[] = [
  ["a Map", { at: new Map([[1, 2]]) }, "at", /an instance of Map/],
  ["a Set in a list", [1, new Set()], "[1]", /an instance of Set/],
  ["NaN", { price: Number.NaN }, "price", /the number NaN/],
  ["Infinity alone", Number.POSITIVE_INFINITY, "", /the number Infinity/],
  ["a bigint", { n: 10n }, "n", /a bigint/],
  ["a function", { f: () => 1 }, "f", /a function/],
  ["undefined in a list", [undefined], "[0]", /undefined/],
  ["an instance of a class", { price: new Money() }, "price", /an instance of Money/],
  ["a Date", { at: new Date(0) }, "at", /toISOString/],
  ["a Buffer", { bytes: Buffer.from("a") }, "bytes", /encode it as text/],
  ["a cycle", ring, "", /cycle/],
  ["a symbol", { s: Symbol("s") }, "s", /a symbol/],
]

describe("between two adapters of a chain", () => {
  it.each(wrong)(
    "%s fails the message with its path, and the next adapter is not called",
    async (_, value, path, what) => {
      const next = recorder("next")
      const make = adapter("make", () => value)
      const late = adapter("late", async () => value)
      umbra = await openUmbra("memory:", { adapters: [make, late, next] })
      for (const type of ["make", "late"]) {
        const definition = {
          name: type,
          routes: [route("only", [type, "next"], { error_handling: { retries: 0, circuit_breaker: false } })],
        }
        const job = await umbra.submit(definition as WorkflowSource)
        await job.wait()
        const { dead_letters } = await umbra.pipelines.deadLetters(job.id)
        expect(dead_letters).toMatchObject([
          { error: { code: "E404", message: expect.stringMatching(what) } },
        ])
        if (path !== "") expect(dead_letters[0]!.error).toMatchObject({ details: { path } })
        const { message } = await umbra.pipelines.lineage(job.id, "only:1")
        expect(message!.invocations).toMatchObject([{ adapter: type, status: "failed" }])
      }
      expect(next.seen).toEqual([])
    },
  )

  it("plain values pass as they are, also large, deep and with fields that are undefined", async () => {
    const next = recorder("next")
    const large = Array.from({ length: 5000 }, (_, n) => ({ n, text: "ä" }))
    let deep: unknown = 1
    for (let i = 0; i < 400; i++) deep = [deep]
    const values = [{ a: 1, b: undefined, c: [true, "x", { d: null }] }, large, deep, Object.create(null)]
    const make = adapter("make", ({ body }) => values[(body as { n: number }).n])
    umbra = await openUmbra("memory:", { adapters: [make, next] })
    for (const n of values.keys()) {
      const definition = { name: "fine", routes: [route("only", ["make", "next"])] }
      const job = await umbra.submit(definition as WorkflowSource, { n })
      await job.wait()
    }
    expect(next.seen).toEqual(values)
  })

  it("a small graph of shared parts that would be huge as text is refused in bounded time (E405)", () => {
    let shared: unknown = "x"
    for (let i = 0; i < 60; i++) shared = [shared, shared]
    expect(() => mustBeJson(shared, { maxBytes: 1_000_000, what: "message for the next adapter" })).toThrow(
      expect.objectContaining({ code: "E405", message: expect.stringContaining("UMBRA_MAX_EMITTED_BYTES") }),
    )
  })
})
