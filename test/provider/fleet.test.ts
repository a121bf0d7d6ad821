import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { freshDatabase } from "../support/services.ts"
import { externalCampaign } from "./campaign/campaign.ts"
import { ProviderLife } from "./campaign/life.ts"
import { fakeProvider, make } from "./stage.ts"

async function database(): Promise<string> {
  const { url, drop } = await freshDatabase()
  onTestFinished(drop)
  return url
}

describe("several processes on one PostgreSQL", () => {
  it("X4 webhooks to different processes and polls at once complete each node exactly once", async () => {
    const verdict = await externalCampaign({
      ...{ seed: 1, location: await database(), jobs: 40, processes: 2, kills: 0, limit: 20, webhooks: 3 },
    })
    // Every fifth is a list of three.
    expect(verdict).toMatchObject({ problems: [], operations: 56 })
  }, 900_000)

  it("X5 never run more operations than there are slots, whichever process is killed, and all slots are free at the end", async () => {
    const verdict = await externalCampaign({
      ...{ seed: 2, location: await database(), jobs: 50, processes: 3, kills: 4, limit: 3, webhooks: 1 },
      ...{ faults: true, workMs: 300 },
    })
    expect(verdict.problems).toEqual([])
    expect(verdict.mostAtOnce).toBe(3)
  }, 900_000)
})

describe("a soak", () => {
  it("X4 every job ends as its provider's script says, whatever fails and whichever process is killed", async () => {
    const verdict = await externalCampaign({
      ...{ seed: 3, location: await database(), jobs: 150, processes: 3, kills: 6, limit: 20, webhooks: 2 },
      faults: true,
    })
    expect(verdict.problems).toEqual([])
    expect(verdict.repeated).toBeGreaterThan(0)
    expect(verdict.failed).toBeGreaterThan(0)
    expect(verdict.lies).toBeGreaterThan(0)
  }, 900_000)
})

describe("a process killed between submitting and recording", () => {
  it.each(["SQLite", "PostgreSQL"])(
    "X1 repeats the submission under the same key on %s",
    async name => {
      const steps = [{ do: "wait", ms: 100 }, { do: "complete" }] as const
      const fake = await fakeProvider({ script: () => ({ steps }) })
      const folder = await mkdtemp(join(tmpdir(), "umbra-killed-"))
      onTestFinished(() => rm(folder, { recursive: true, force: true }))
      const location = name === "SQLite" ? join(folder, "store") : await database()
      const task = join(folder, "task.json")
      const jobs = [{ workflow: "one", input: {} }]
      const definition = { ...fake.definition(), poll_seconds: [0.05], rate: null }
      const engine = { beatSeconds: 0.2, leaseSeconds: 1 }
      await writeFile(
        task,
        JSON.stringify({
          location,
          definition,
          engine,
          secret: fake.secret,
          workflows: { one: make() },
          jobs,
        }),
      )
      const share = { task, from: 0, to: 1, step: 1 }
      const first = new ProviderLife({ ...share, failpoint: "handler.after:1" })
      await first.ended()
      expect([...fake.operations.values()].map(({ submissions }) => submissions)).toEqual([1])
      const second = new ProviderLife(share)
      onTestFinished(() => second.kill())
      await second.says("idle", 180_000)
      await second.close()
      expect([...fake.operations.values()].map(({ submissions }) => submissions)).toEqual([2])
    },
    240_000,
  )
})
