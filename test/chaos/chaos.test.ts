import { expect, it } from "vitest"
import { seed } from "../support/seed.ts"
import { chaos } from "./campaign.ts"

it("S1 S5 S6 S7 a fleet under a minute of chaos: nothing is lost, nothing is stuck, nothing completed runs again", async () => {
  const report = await chaos({ seed, seconds: 60, jobs: 500 })
  expect(report.violations, `npm run chaos -- --minutes 1 --jobs 500 --seed ${seed}`).toEqual([])
  expect(report.jobs).toBe(500)
  expect(report.children).toBeGreaterThan(0)
  expect(report.kept.references).toBeGreaterThan(0)
  expect(report.kept.swept).toBeGreaterThan(0)
  expect(report.kept.lines - report.kept.lostLines).toBeGreaterThan(0)
  // On a slow machine faults are skipped, since the one before on the same process is not over yet.
  const faults = [...report.faults.values()].reduce((sum, times) => sum + times)
  expect(faults).toBeGreaterThanOrEqual(report.subjects)
}, 900_000)
