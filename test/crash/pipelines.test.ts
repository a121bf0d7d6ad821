import { expect, it, onTestFinished } from "vitest"
import { startPostgres } from "../../scripts/services/postgres.ts"
import { seed } from "../support/seed.ts"
import { pipelineCampaign } from "./pipelines/campaign.ts"

it("P2 P3 P5 a process on the embedded database is killed 4 times: every message is settled once, as foretold", async () => {
  const report = await pipelineCampaign({ seed, kills: 4, jobs: 4, location: null })
  expect(
    report.violations,
    `npm run crash -- --pipelines --store sqlite --kills 4 --jobs 4 --seed ${seed}`,
  ).toEqual([])
  // The message of the call that never returned, at least.
  expect(report.repeated).toBeGreaterThan(0)
}, 900_000)

it("P2 P3 P5 two processes on one PostgreSQL are killed 8 times: every message is settled once, as foretold", async () => {
  const postgres = await startPostgres({ settings: { track_commit_timestamp: "on" } })
  onTestFinished(() => postgres.stop())
  const report = await pipelineCampaign({ seed, kills: 8, jobs: 10, location: postgres.url, processes: 2 })
  expect(
    report.violations,
    `npm run crash -- --pipelines --store postgres --kills 8 --jobs 10 --seed ${seed}`,
  ).toEqual([])
  // The message of the call that never returned, at least.
  expect(report.repeated).toBeGreaterThan(0)
}, 900_000)
