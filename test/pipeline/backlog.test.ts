/** A backlog is rows in the store, not memory: measured in a process of its own. */
import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { expect, it, onTestFinished } from "vitest"
import { freshDatabase } from "../support/services.ts"

interface Sample {
  readonly emitted: number
  readonly queued: number
  readonly done: number
  readonly rss: number
  readonly heap: number
}

async function measure(count: number, maxQueued: number): Promise<Sample[]> {
  const database = await freshDatabase()
  onTestFinished(database.drop)
  const program = fileURLToPath(new URL("./backlog-program.js", import.meta.url))
  const words = ["--expose-gc", program, database.url, String(count), String(maxQueued)]
  const { stdout } = await promisify(execFile)(process.execPath, words)
  return stdout
    .trim()
    .split("\n")
    .map(line => JSON.parse(line) as Sample)
}

const MB = 2 ** 20

it("P6 100,000 messages that wait are on disk: memory is what it was with few", async () => {
  const samples = await measure(100_000, 10_000_000)
  const last = samples.at(-1)!
  expect(last.queued).toBeGreaterThan(90_000)
  // Their bodies alone are 11 MB as text; as objects in memory, with what belongs to them, they would be 50 MB.
  expect(last.heap - samples[0]!.heap).toBeLessThan(8 * MB)
})

it("P6 a source that is too fast waits: no more is queued than may be, and all arrives", async () => {
  const samples = await measure(40_000, 2000)
  const last = samples.at(-1)!
  expect(last).toMatchObject({ done: 40_000, queued: 0 })
  // What one message of the source emits comes at once.
  for (const { queued } of samples) expect(queued).toBeLessThanOrEqual(2000 + 1000)
  expect(last.heap - samples[0]!.heap).toBeLessThan(8 * MB)
})
