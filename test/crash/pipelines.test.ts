import { expect, it, onTestFinished } from "vitest"
import { startPostgres } from "../../scripts/services/postgres.ts"
import { pipelineCampaign } from "./pipelines/campaign.ts"

const seed = Math.floor(Math.random() * 2 ** 32)

it("P2 P3 P5 a process on the embedded database is killed 4 times: every message is settled once, as foretold", async () => {
  const report = await pipelineCampaign({ seed, kills: 4, jobs: 6, location: null })
  expect(
    report.violations,
    `npm run crash -- --pipelines --store pglite --kills 4 --jobs 6 --seed ${seed}`,
  ).toEqual([])
  expect(report.repeated).toBeGreaterThan(0)
}, 120_000)

it("P2 P3 P5 three processes on one PostgreSQL are killed 9 times: every message is settled once, as foretold", async () => {
  const postgres = await startPostgres({ settings: { track_commit_timestamp: "on" } })
  onTestFinished(() => postgres.stop())
  const report = await pipelineCampaign({ seed, kills: 9, jobs: 15, location: postgres.url, processes: 3 })
  expect(
    report.violations,
    `npm run crash -- --pipelines --store postgres --kills 9 --jobs 15 --seed ${seed}`,
  ).toEqual([])
  expect(report.repeated).toBeGreaterThan(0)
}, 120_000)
