/** Jobs whose handler kills its process, beside innocent ones, and processes that are started again until all have ended. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import type { WorkflowDefinition } from "../../src/definition/index.ts"
import { openJournal } from "../../src/journal/open.ts"
import { Life } from "./life.ts"
import { randomFrom } from "./random.ts"
import { writeTask } from "./task.ts"

export interface PoisonOptions {
  readonly seed: number
  /** null: a folder of its own. */
  readonly location: string | null
  readonly poisons: number
  readonly innocents: number
  readonly lossLimit?: number
  /** Kills from outside, each at some time of a life. */
  readonly kills?: number
  /** How long innocent nodes take, one of these. */
  readonly innocentMs: readonly number[]
}

export interface PoisonReport {
  /** By job: its status and the code of its error. */
  readonly poisoned: readonly string[]
  readonly innocent: ReadonlySet<string>
  /** Deaths that nobody caused from outside. */
  readonly deaths: number
}

const OPEN_MS = 180_000
const IDLE_MS = 180_000
const POISON_MS = 300

export function otherNode(ms: number): WorkflowDefinition["nodes"][number] {
  return { id: "work", handler: "step", config: { number: 1, ms } }
}

export const poisonNode: WorkflowDefinition["nodes"][number] = {
  id: "work",
  handler: "poison",
  config: { ms: POISON_MS },
}

export async function poisonRun(options: PoisonOptions): Promise<PoisonReport> {
  const { poisons, innocents, innocentMs, lossLimit, kills = 0 } = options
  const folder = await mkdtemp(join(tmpdir(), "umbra-poison-"))
  const location = options.location ?? join(folder, "store")
  const random = randomFrom(options.seed)
  const shapes = [
    { definition: { name: "poison", nodes: [poisonNode] } },
    ...innocentMs.map(ms => ({ definition: { name: `innocent-${ms}`, nodes: [otherNode(ms)] } })),
  ]
  const jobs = [
    ...new Array<number>(poisons).fill(0),
    ...Array.from({ length: innocents }, (_, index) => 1 + (index % innocentMs.length)),
  ]
  try {
    const task = await writeTask({
      ...{ folder, location, workload: { shapes, jobs } },
      ...(lossLimit === undefined ? {} : { lossLimit }),
      window: 25,
      // Most innocent nodes are known to run when they die with the others.
      worker: { startedAfterSeconds: 0.1 },
    })
    const whole = { task, from: 0, to: jobs.length, step: 1 }
    for (let kill = 0; kill < kills; kill++) await killed(whole, random.between(200, 2000))
    const deaths = await livesUntilIdle(whole)
    return { ...(await outcomes(location)), deaths }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function killed(options: ConstructorParameters<typeof Life>[0], afterMs: number): Promise<void> {
  const life = new Life(options)
  try {
    await life.says("open", OPEN_MS)
    await delay(afterMs)
  } finally {
    await life.kill()
  }
}

/** Answers how many died before all jobs had ended. */
async function livesUntilIdle(options: ConstructorParameters<typeof Life>[0]): Promise<number> {
  for (let deaths = 0; deaths < 100; deaths++) {
    const life = new Life(options)
    try {
      if (!(await life.says("idle", IDLE_MS))) continue
      await life.close()
      return deaths
    } finally {
      await life.kill()
    }
  }
  throw new Error("processes die for ever")
}

async function outcomes(location: string): Promise<Omit<PoisonReport, "deaths">> {
  const journal = await openJournal(location)
  try {
    const { jobs: rows } = await journal.listJobs({ limit: 500 }, { ms: 10_000 })
    const outcome = ({ status, error }: { status: string; error: string | null }) =>
      error === null ? status : `${status} ${(JSON.parse(error) as { code: string }).code}`
    return {
      poisoned: rows.filter(({ workflow }) => workflow === "poison").map(outcome),
      innocent: new Set(rows.filter(({ workflow }) => workflow !== "poison").map(outcome)),
    }
  } finally {
    await journal.close()
  }
}
