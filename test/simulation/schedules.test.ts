import { expect, it } from "vitest"
import { seed as first } from "../support/seed.ts"
import { Fleet } from "./fleet.ts"

const RUNS = 4

it.each([
  ["engines die and lose partitions", false],
  ["engines die and their clocks jump back and forth", true],
])(`every tick has one outcome and at most one job while %s (seeds from ${first})`, async (_, jumps) => {
  let [started, deaths] = [0, 0]
  for (let seed = first; seed < first + RUNS; seed++) {
    const fleet = new Fleet(seed, { schedules: true, jumps })
    const outcome = await fleet.run({ engines: 3, steps: 120 })
    expect(outcome.violations, `UMBRA_TEST_SEED=${seed}`).toEqual([])
    started += fleet.started
    deaths += outcome.deaths
  }
  expect(started).toBeGreaterThan(20 * RUNS)
  expect(deaths).toBeGreaterThan(RUNS)
})
