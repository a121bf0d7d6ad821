import { expect, it, onTestFinished } from "vitest"
import { seed } from "../support/seed.ts"
import { freshDatabase } from "../support/services.ts"
import { campaign, places } from "./campaign.ts"

it("J5 J6 J8 S7 two processes on one PostgreSQL are killed 30 times: nothing is lost, nothing completed runs again", async () => {
  const database = await freshDatabase()
  onTestFinished(database.drop)
  const report = await campaign({ seed, kills: 30, jobs: 300, location: database.url, processes: 2 })
  expect(report.violations, `npm run crash -- --store postgres --kills 30 --jobs 300 --seed ${seed}`).toEqual(
    [],
  )
  expect([...report.deaths.keys()]).toEqual(expect.arrayContaining(places))
  expect(report.children).toBeGreaterThan(0)
  expect(report.kept.references).toBeGreaterThan(0)
  expect(report.kept.swept).toBeGreaterThan(0)
  expect(report.kept.lines - report.kept.lostLines).toBeGreaterThan(0)
  expect(report.jobs).toBe(300)
}, 900_000)
