/** SIGKILL between the acceptance of delayed jobs and their start, and around the append of the start: each runs once. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { describe, expect, it, onTestFinished } from "vitest"
import { openJournal } from "../../src/journal/open.ts"
import { stores } from "../server/stage.ts"
import { programArguments } from "../support/program.ts"
import { handler, open } from "./stage.ts"

const script = fileURLToPath(new URL("./delayed-child.ts", import.meta.url))
const engine = { beatSeconds: 0.1, leaseSeconds: 1 }
const JOBS = 40

/** Runs the child until it kills itself. Returns what it printed: ids by word. */
async function killed(...args: string[]): Promise<ReadonlyMap<string, string[]>> {
  const child = spawn(process.execPath, [...programArguments(script), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  onTestFinished(() => void child.kill("SIGKILL"))
  const exit = once(child, "exit")
  const printed = new Map<string, string[]>()
  for await (const line of createInterface({ input: child.stdout })) {
    const [word = "", id = ""] = line.split(" ")
    printed.set(word, [...(printed.get(word) ?? []), id])
  }
  const [, signal] = await exit
  expect(signal).toBe("SIGKILL")
  return printed
}

describe.each(["SQLite", "PostgreSQL"])("SIGKILL on %s", kind => {
  it.each([
    // The start time passes while no engine runs, or comes after the take-over.
    ["accepted", "0.5"],
    ["accepted", "4"],
    ["before", "1"],
    ["after", "1"],
  ])(
    "%s, with a delay of %s s: every job starts once, and not before its time",
    { timeout: 240_000 },
    async (moment, delay) => {
      const { location, remove } = await stores[kind]!()
      onTestFinished(() => remove())
      const printed = await killed(location, moment, String(JOBS), delay)
      const ids = printed.get("accepted")!
      expect(ids).toHaveLength(JOBS)
      const umbra = await open({ at: location, handlers: [handler("act", () => {})], engine })
      for (const id of ids) expect((await umbra.wait(id)).status).toBe("COMPLETED")
      for (const id of ids) expect(await umbra.queries.verify(await umbra.queries.row(id))).toEqual([])
      await umbra.close()
      const journal = await openJournal(location)
      onTestFinished(() => journal.close())
      const facts = await journal.readFacts(ids)
      const started = facts.filter(({ type }) => type === "job_started")
      expect(started.map(({ jobId }) => jobId).sort()).toEqual([...ids].sort())
      const startAt = new Map(
        facts.flatMap(({ type, jobId, data }) =>
          type === "job_submitted" ? [[jobId, (JSON.parse(data!) as { start_at: number }).start_at]] : [],
        ),
      )
      for (const { jobId, at } of started) expect(at).toBeGreaterThanOrEqual(startAt.get(jobId)!)
    },
  )
})
