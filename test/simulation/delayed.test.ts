import { expect, it } from "vitest"
import { seed as first } from "../support/seed.ts"
import { Fleet } from "./fleet.ts"

const RUNS = 4

it(`delayed jobs, nodes that only compute and schedules keep their rules together while clocks jump (seeds from ${first})`, async () => {
  let [delayed, started] = [0, 0]
  for (let seed = first; seed < first + RUNS; seed++) {
    const fleet = new Fleet(seed, { computes: true, delays: true, schedules: true, jumps: true })
    const outcome = await fleet.run({ engines: 3, steps: 120 })
    expect(outcome.violations, `UMBRA_TEST_SEED=${seed}`).toEqual([])
    delayed += fleet.delayed
    started += fleet.started
  }
  expect(delayed).toBeGreaterThan(5 * RUNS)
  expect(started).toBeGreaterThan(20 * RUNS)
}, 900_000)

it(`delayed jobs start once and not before their time while engines die, lose partitions and jobs are rescheduled, paused and deleted (seeds from ${first})`, async () => {
  let [delayed, deaths] = [0, 0]
  const kinds = new Set<string>()
  for (let seed = first; seed < first + RUNS; seed++) {
    const fleet = new Fleet(seed, { isNested: seed % 2 === 0, pauses: true, delays: true })
    const outcome = await fleet.run({ engines: 3, steps: 120 })
    expect(outcome.violations, `UMBRA_TEST_SEED=${seed}`).toEqual([])
    delayed += fleet.delayed
    deaths += outcome.deaths
    for (const kind of fleet.reasons.keys()) kinds.add(kind)
  }
  expect(delayed).toBeGreaterThan(10 * RUNS)
  expect(deaths).toBeGreaterThan(RUNS)
  expect([...kinds]).toContain("start_time")
}, 900_000)
