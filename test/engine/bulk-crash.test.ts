/** SIGKILL in the middle of a bulk, and while it is drained: every accepted job completes, and none twice. */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { expect, it, onTestFinished } from "vitest"
import { openJournal } from "../../src/journal/open.ts"
import { programArguments } from "../support/program.ts"
import { handler, open } from "./stage.ts"

const script = fileURLToPath(new URL("./bulk-child.ts", import.meta.url))

/** Starts the child and kills it when `isTime` says so. Returns the ids that it said were accepted. */
async function killed(
  args: readonly string[],
  isTime: (line: string, lines: number) => boolean,
): Promise<string[]> {
  const child: ChildProcess = spawn(process.execPath, [...programArguments(script), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  onTestFinished(() => void child.kill("SIGKILL"))
  const exit = once(child, "exit")
  const ids: string[] = []
  let lines = 0
  for await (const line of createInterface({ input: child.stdout! })) {
    if (line.includes("-7")) ids.push(...line.split(" "))
    if (isTime(line, ++lines)) child.kill("SIGKILL")
  }
  const [, signal] = await exit
  expect(signal).toBe("SIGKILL")
  return ids
}

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "umbra-bulk-"))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return join(path, "umbra")
}

/** Opens the store again, waits for all jobs, and counts what is recorded of each. */
async function continued(location: string, accepted: readonly string[]): Promise<void> {
  const count = handler("count", (_config, { input }) => (input as { x: number }).x)
  const umbra = await open({ at: location, handlers: [count] })
  const unfinished = () => umbra.jobs({ statuses: ["QUEUED", "DISPATCHING", "PROCESSING"], limit: 1 })
  await expect.poll(unfinished, { timeout: 120_000 }).toEqual([])
  for (const id of accepted.slice(0, 10)) expect((await umbra.job(id)).status).toBe("COMPLETED")
  await umbra.close()
  const journal = await openJournal(location)
  try {
    for (let next = 0; next < accepted.length; next += 1000) {
      const ids = accepted.slice(next, next + 1000)
      const ended = await journal.finishedJobs(ids)
      expect(ended.map(({ status }) => status)).toEqual(ids.map(() => "COMPLETED"))
      const facts = await journal.readFacts(ids)
      expect(facts.filter(({ type }) => type === "job_submitted")).toHaveLength(ids.length)
      expect(facts.filter(({ type }) => type === "node_completed")).toHaveLength(ids.length)
    }
  } finally {
    await journal.close()
  }
}

it("a process that is killed in the middle of a bulk has lost nothing that it accepted", {
  timeout: 240_000,
}, async () => {
  const location = await folder()
  const accepted = await killed([location, "1000", "1500"], (_line, lines) => lines === 2)
  expect(accepted.length).toBeGreaterThanOrEqual(3000)
  await continued(location, accepted)
})

it("a process that is killed while it drains a bulk has lost nothing and repeats nothing that was recorded", {
  timeout: 240_000,
}, async () => {
  const location = await folder()
  const accepted = await killed([location, "1", "6000"], line => line.startsWith("live"))
  expect(accepted).toHaveLength(6000)
  await continued(location, accepted)
})
