import { expect, it } from "vitest"
import { seed as first } from "../support/seed.ts"
import { Fleet } from "./fleet.ts"

const RUNS = 5

it(`every unfinished node has a reason while engines die and jobs are paused, and every job ends (seeds from ${first})`, async () => {
  const kinds = new Map<string, number>()
  for (let seed = first; seed < first + RUNS; seed++) {
    const fleet = new Fleet(seed, { isNested: true, computes: seed % 2 === 0, pauses: true })
    const outcome = await fleet.run({ engines: 3, steps: 120 })
    expect(outcome.violations, `UMBRA_TEST_SEED=${seed}`).toEqual([])
    for (const [kind, count] of fleet.reasons) kinds.set(kind, (kinds.get(kind) ?? 0) + count)
  }
  for (const kind of [
    "dependency",
    "running",
    "retry",
    "timer",
    "signal",
    "child",
    "items",
    "paused",
    "dispatching",
  ])
    expect(kinds.get(kind) ?? 0, kind).toBeGreaterThan(0)
}, 900_000)
