import { describe, expect, it, type TestContext } from "vitest"
import { seed } from "../support/seed.ts"
import { freshDatabase } from "../support/services.ts"
import { poisonRun } from "./poison.ts"

const innocentMs = [30, 60, 150, 400]

async function database({ onTestFinished }: TestContext): Promise<string> {
  const { url, drop } = await freshDatabase()
  onTestFinished(drop)
  return url
}

// They wait more than they compute.
describe.concurrent("processes that die", () => {
  it("a node that kills its process is failed (E417), 20 innocent ones beside it complete", async () => {
    const { poisoned, innocent, deaths } = await poisonRun({
      ...{ seed, innocentMs, poisons: 1, innocents: 20 },
      location: null,
    })
    expect([poisoned, innocent], `seed ${seed}`).toEqual([["FAILED E417"], new Set(["COMPLETED"])])
    // Once or twice beside the others, then three times alone.
    expect([4, 5]).toContain(deaths)
  }, 900_000)

  it("of two nodes that kill their process both are failed, innocent ones complete", async context => {
    const report = await poisonRun({
      ...{ seed, innocentMs, poisons: 2, innocents: 10 },
      location: await database(context),
      lossLimit: 2,
    })
    expect([report.poisoned, report.innocent], `seed ${seed}`).toEqual([
      ["FAILED E417", "FAILED E417"],
      new Set(["COMPLETED"]),
    ])
  }, 900_000)

  it("12 kills from outside blame no innocent node of at most a second", async context => {
    const report = await poisonRun({
      ...{ seed, poisons: 0, innocents: 60, kills: 12 },
      innocentMs: [50, 100, 300, 1000],
      location: await database(context),
    })
    expect(report, `seed ${seed}`).toEqual({ poisoned: [], innocent: new Set(["COMPLETED"]), deaths: 0 })
  }, 900_000)
})
