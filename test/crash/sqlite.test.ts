import { expect, it } from "vitest"
import { seed } from "../support/seed.ts"
import { campaign, places } from "./campaign.ts"

it("J5 J6 J8 S7 a process on the embedded database is killed 20 times: nothing is lost, nothing completed runs again", async () => {
  const report = await campaign({ seed, kills: 20, jobs: 200, location: null })
  expect(report.violations, `npm run crash -- --store sqlite --kills 20 --jobs 200 --seed ${seed}`).toEqual(
    [],
  )
  expect([...report.deaths.keys()]).toEqual(expect.arrayContaining(places))
  expect(report.children).toBeGreaterThan(0)
  expect(report.kept.references).toBeGreaterThan(0)
  expect(report.kept.swept).toBeGreaterThan(0)
  expect(report.kept.lines - report.kept.lostLines).toBeGreaterThan(0)
  expect(report.jobs).toBe(200)
}, 900_000)
