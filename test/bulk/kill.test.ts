/** SIGKILL during a bulk operation, again and again: each target is affected once, and the report is true. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { expect, it, type TestContext } from "vitest"
import { bulkForkId } from "../../src/engine/ids.ts"
import { openUmbra } from "../../src/umbra.ts"
import { programArguments } from "../support/program.ts"
import { freshDatabase } from "../support/services.ts"
import { backfillRange, countFactsOf, ended, handlers, kinds } from "./stage.ts"

const script = fileURLToPath(new URL("./kill-child.ts", import.meta.url))
const TARGETS = 600

type AtEnd = TestContext["onTestFinished"]

/** Starts the child and kills it once it has processed so many targets, or more. Returns the operation. */
async function killed(atEnd: AtEnd, args: readonly string[], processed: number): Promise<string> {
  const child = spawn(process.execPath, [...programArguments(script), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  atEnd(() => void child.kill("SIGKILL"))
  const exit = once(child, "exit")
  let operation = ""
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith("operation ")) operation = line.slice("operation ".length)
    else if (Number(line.split(" ")[0]) >= processed || line.endsWith("COMPLETED")) child.kill("SIGKILL")
  }
  const [, signal] = await exit
  expect(signal).toBe("SIGKILL")
  return operation
}

async function place(store: string, atEnd: AtEnd): Promise<string> {
  if (store === "postgres") {
    const database = await freshDatabase()
    atEnd(database.drop)
    return database.url
  }
  const path = await mkdtemp(join(tmpdir(), "umbra-bulk-"))
  atEnd(() => rm(path, { recursive: true, force: true }))
  return join(path, "umbra")
}

it.concurrent.for([
  ["sqlite", "retry"],
  ["postgres", "retry"],
  ["sqlite", "fork"],
  ["postgres", "fork"],
] as const)(
  "%s: killed twice in the middle, a bulk %s does all of its work once",
  {
    timeout: 600_000,
  },
  async ([store, verb], { onTestFinished: atEnd }) => {
    const location = await place(store, atEnd)
    const first = await openUmbra(location, { handlers })
    const made = await first.submitMany(kinds.fails, new Array(TARGETS).fill({}))
    const ids = made.map(({ job }) => job!.id)
    for (const id of ids) await first.wait(id)
    await first.close()
    const operation = await killed(atEnd, [location, verb, "400"], 30)
    expect(await killed(atEnd, [location, "resume"], 200)).toBe(operation)

    const umbra = await openUmbra(location, { handlers, engine: { leaseSeconds: 2, beatSeconds: 0.1 } })
    atEnd(() => umbra.close())
    const view = await ended(umbra, operation)
    expect(view).toMatchObject({ status: "COMPLETED", processed: TARGETS, done: TARGETS, refused: 0 })
    for (const id of ids) {
      const forks = await umbra.queries.list({ forkedFrom: id, limit: 10 })
      expect(forks.jobs.map(fork => fork.id)).toEqual(verb === "fork" ? [bulkForkId(operation, id)] : [])
      expect(await countFactsOf(umbra, id, operation)).toBe(verb === "fork" ? 0 : 1)
    }
    const { jobs } = await umbra.queries.list({ workflow: "fails", limit: 2 * TARGETS + 1 })
    expect(jobs).toHaveLength(verb === "fork" ? 2 * TARGETS : TARGETS)
  },
)

it.concurrent.for(["sqlite", "postgres"])(
  "%s: killed twice in the middle, a backfill starts one job for each tick",
  { timeout: 600_000 },
  async (store, { onTestFinished: atEnd }) => {
    const location = await place(store, atEnd)
    const first = await openUmbra(location, { handlers })
    await first.register(kinds.completes)
    await first.schedules.put("s", { workflow: "completes", every: "1m", end: backfillRange.to })
    await first.close()
    const operation = await killed(atEnd, [location, "backfill", "400"], 30)
    expect(await killed(atEnd, [location, "resume"], 200)).toBe(operation)

    const umbra = await openUmbra(location, { handlers, engine: { leaseSeconds: 2, beatSeconds: 0.1 } })
    atEnd(() => umbra.close())
    const view = await ended(umbra, operation)
    expect(view).toMatchObject({ status: "COMPLETED", processed: TARGETS, done: TARGETS, refused: 0 })
    const from = Date.parse(backfillRange.from)
    const ticks = Array.from({ length: TARGETS }, (_, index) => from + index * 60_000)
    const { jobs } = await umbra.queries.list({ workflow: "completes", limit: TARGETS + 1 })
    const { ticks: found } = await umbra.schedules.ticks("s", { ...backfillRange, limit: TARGETS + 1 })
    expect(found.map(({ tick }) => Date.parse(tick))).toEqual(ticks)
    expect(found.map(({ job_id }) => job_id).sort()).toEqual(jobs.map(({ id }) => id).sort())
  },
)
