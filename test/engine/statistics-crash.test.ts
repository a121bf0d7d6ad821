/** SIGKILL of the owner around its writes of statistics: every end is counted once, by a count from outside. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { expect, it, onTestFinished } from "vitest"
import { openJournal } from "../../src/journal/open.ts"
import { programArguments } from "../support/program.ts"
import { freshDatabase } from "../support/services.ts"
import { handler, open, until } from "./stage.ts"

const script = fileURLToPath(new URL("./statistics-child.ts", import.meta.url))

async function killed(...args: string[]): Promise<void> {
  const child = spawn(process.execPath, [...programArguments(script), ...args], { stdio: "inherit" })
  onTestFinished(() => void child.kill("SIGKILL"))
  const [, signal] = await once(child, "exit")
  expect(signal).toBe("SIGKILL")
}

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "umbra-statistics-"))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return join(path, "umbra")
}

async function database(): Promise<string> {
  const { url, drop } = await freshDatabase()
  onTestFinished(drop)
  return url
}

/** Counts ends in the journal itself: each retry follows an end, and so does the last status of a job that has ended. */
async function endsIn(location: string): Promise<{ ends: number; failures: number; jobs: number }> {
  const journal = await openJournal(location)
  let [ends, failures, jobs] = [0, 0, 0]
  try {
    for (let after: string | undefined; ; ) {
      const page = await journal.listJobs({ owner: "local", limit: 500, after })
      for (const { id, finishedAt, status } of page.jobs) {
        expect(finishedAt).not.toBeNull()
        const facts = await journal.readFacts([id])
        const retries = facts.filter(({ type }) => type === "job_retried").length
        jobs++
        ends += retries + 1
        failures += retries + (status === "FAILED" ? 1 : 0)
      }
      if (page.next === null) return { ends, failures, jobs }
      after = page.next
    }
  } finally {
    await journal.close()
  }
}

for (const [name, newStore] of [
  ["SQLite", folder],
  ["PostgreSQL", database],
] as const)
  it(`${name}: every end is counted once although the owner is killed before and after its writes`, {
    timeout: 240_000,
  }, async () => {
    const location = await newStore()
    await killed(location, "before", "2")
    await killed(location, "after", "1")
    await killed(location, "before", "4")
    await killed(location, "after", "3")
    const act = handler("act", () => 1)
    const engine = { retentionSeconds: null, beatSeconds: 0.1, leaseSeconds: 1 }
    const umbra = await open({ at: location, handlers: [act], engine })
    await until("all partitions are taken", () => umbra.health().partitions === 64)
    const unfinished = () => umbra.jobs({ statuses: ["QUEUED", "DISPATCHING", "PROCESSING"], limit: 1 })
    await expect.poll(unfinished, { timeout: 120_000 }).toEqual([])
    await umbra.close()
    const { ends, failures, jobs } = await endsIn(location)
    expect(jobs).toBeGreaterThan(0)
    const reader = await open({ at: location })
    const found = await reader.statistics("counted", {
      from: Date.now() - 7_200_000,
      to: Date.now() + 3_600_000,
    })
    await reader.close()
    expect([found.jobs.count, found.jobs.failed]).toEqual([ends, failures])
    expect(found.nodes).toMatchObject([{ node: "a", count: ends, failed: failures }])
  })
