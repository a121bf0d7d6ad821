/** What the tests of schedules share: an engine with a clock that stands at noon, and the outcomes of its ticks. */
import { expect } from "vitest"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import type { Umbra } from "../../src/umbra.ts"
import { flow, handler, open } from "./stage.ts"

export const HOUR = 3_600_000
export const start = Date.parse("2026-11-17T12:00:00Z")
/** The inputs of the jobs that ran, by job. */
export const inputs = new Map<string, unknown>()
export const noop = handler("noop", ({ input }: { input: unknown }, ctx) => void inputs.set(ctx.jobId, input))
export const simple = flow([{ id: "a", handler: "noop", config: { input: "{{ input }}" } }])
export const waiting = flow([{ id: "a", handler: "gate" }])

export async function opened(options: Parameters<typeof open>[0] = {}) {
  const clock = new VirtualClock({ start })
  const umbra = await open({ handlers: [noop], clock, ...options })
  await umbra.register(simple)
  return { clock, umbra }
}

/** The outcomes of its ticks, oldest first. */
export async function outcomes(umbra: Umbra, name = "s"): Promise<string[]> {
  const { fires } = await umbra.schedules.fires(name)
  return fires.map(({ tick, outcome }) => `${tick.slice(11, 16)} ${outcome}`).reverse()
}

export function whenFired(umbra: Umbra, expected: readonly string[], name = "s"): Promise<void> {
  return expect.poll(() => outcomes(umbra, name)).toEqual(expected)
}
