/** SIGKILL while forks are made: each exists whole or not at all, and each that exists completes. */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { describe, expect, it, onTestFinished } from "vitest"
import type { Failpoint } from "../../src/failpoints.ts"
import { openJournal } from "../../src/journal/open.ts"
import { countAll } from "../journal/fixture.ts"
import { programArguments } from "../support/program.ts"
import { freshDatabase } from "../support/services.ts"
import { handler, open } from "./stage.ts"

const script = fileURLToPath(new URL("./fork-child.ts", import.meta.url))

interface Killed {
  readonly origin: string
  readonly forks: ReadonlyMap<string, number>
}

/** A process that makes forks and is killed when it reaches the failpoint for the `count`th time. */
async function killed(location: string, failpoint: Failpoint, count: number): Promise<Killed> {
  const args = [...programArguments(script), location, failpoint, String(count)]
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] })
  onTestFinished(() => void child.kill("SIGKILL"))
  const exit = once(child, "exit")
  let origin = ""
  const forks = new Map<string, number>()
  for await (const line of createInterface({ input: child.stdout! })) {
    const [what, id = "", n] = line.split(" ")
    if (what === "origin") origin = id
    else forks.set(id, Number(n))
  }
  const [, signal] = await exit
  expect(signal).toBe("SIGKILL")
  return { origin, forks }
}

async function expectWhole(location: string, { origin, forks }: Killed): Promise<void> {
  const umbra = await open({
    at: location,
    handlers: [handler("work", ({ value }: { value: unknown }) => value), handler("last", config => config)],
    engine: { leaseSeconds: 1, beatSeconds: 0.1 },
  })
  const unfinished = () => umbra.jobs({ statuses: ["QUEUED", "DISPATCHING", "PROCESSING"], limit: 1 })
  await expect.poll(unfinished, { timeout: 120_000 }).toEqual([])
  const found = await umbra.jobs({ forkedFrom: origin, limit: 1000 })
  const ids = new Set(found.map(({ job_id }) => job_id))
  for (const id of forks.keys()) expect(ids).toContain(id)
  // At most one more: the one that was being made.
  expect(found.length - forks.size).toBeLessThanOrEqual(1)
  for (const { job_id, status } of found) {
    const { output } = await umbra.job(job_id)
    const n = forks.get(job_id)
    expect(status).toBe("COMPLETED")
    expect(output).toEqual({ n: n ?? expect.any(Number), of: "a!-b!-c!" })
    expect(await umbra.queries.verify(await umbra.queries.row(job_id))).toEqual([])
  }
  await umbra.close()
  const journal = await openJournal(location)
  try {
    const facts = await journal.readFacts([...ids])
    expect(facts.filter(({ type }) => type === "job_submitted")).toHaveLength(ids.size)
    // Only the last node ran in them.
    expect(facts.filter(({ type }) => type === "node_completed")).toHaveLength(ids.size)
    const partitions = await journal.readPartitions()
    const fences = partitions.map(({ partition, epoch }) => ({ partition, epoch }))
    await countAll(journal, fences)
    const purge = (jobIds: readonly string[]) =>
      journal.purge({ fences, jobIds, before: Number.MAX_SAFE_INTEGER, limit: 100_000 })
    if (ids.size > 0) expect(await purge([origin])).toBe(0)
    expect(await purge([...ids])).toBe(ids.size)
    expect(await purge([origin])).toBe(1)
  } finally {
    await journal.close()
  }
}

describe("SIGKILL during forks", () => {
  it.each([
    ["append.before", 1],
    ["append.after", 1],
    ["dispatch.after", 3],
  ] as const)("in a folder, at %s number %i", async (failpoint, count) => {
    const path = await mkdtemp(join(tmpdir(), "umbra-fork-"))
    onTestFinished(() => rm(path, { recursive: true, force: true }))
    const location = join(path, "umbra")
    await expectWhole(location, await killed(location, failpoint, count))
  })

  it.each([["append.before", 3]] as const)(
    "on PostgreSQL, at %s number %i",
    { timeout: 240_000 },
    async (failpoint, count) => {
      const database = await freshDatabase()
      onTestFinished(() => database.drop())
      await expectWhole(database.url, await killed(database.url, failpoint, count))
    },
  )
})
