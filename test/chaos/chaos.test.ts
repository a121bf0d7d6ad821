import { expect, it } from "vitest"
import { chaos } from "./campaign.ts"

it("S1 S5 S6 S7 a fleet under a minute of chaos: nothing is lost, nothing is stuck, nothing completed runs again", async () => {
  const seed = Math.floor(Math.random() * 2 ** 32)
  const report = await chaos({ seed, seconds: 60, jobs: 500 })
  expect(report.violations, `npm run chaos -- --minutes 1 --jobs 500 --seed ${seed}`).toEqual([])
  expect(report.jobs).toBe(500)
  expect(report.children).toBeGreaterThan(0)
  expect([...report.faults.values()].reduce((sum, times) => sum + times)).toBeGreaterThan(25)
}, 300_000)
