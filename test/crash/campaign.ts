/**
 * Kills processes until all kills are spent and all jobs are done, then judges. Every choice comes from the seed; what
 * does not is the operating system's timing, so the same seed gives the same plan, not the same interleaving.
 */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { artifactFailpointNames, failpointNames } from "../../src/failpoints.ts"
import { openJournal } from "../../src/journal/open.ts"
import { check, type Verdict } from "./check.ts"
import { checkKept, type KeptVerdict } from "./kept.ts"
import { Life, type LifeOptions } from "./life.ts"
import { type Random, randomFrom } from "./random.ts"
import { writeTask } from "./task.ts"
import { workload } from "./workload.ts"

export interface CampaignOptions {
  readonly seed: number
  readonly kills: number
  readonly jobs: number
  /** Where the jobs live; `null`: a folder of the campaign's own (SQLite). */
  readonly location: string | null
  /** Processes at once; more than one needs a store that can be shared. */
  readonly processes?: number
  readonly print?: (line: string) => void
}

export interface Report extends Verdict {
  /** How many died at each place. */
  readonly deaths: ReadonlyMap<string, number>
  /** What is left of log lines and artifacts; its violations are among all others. */
  readonly kept: Omit<KeptVerdict, "violations">
}

/** Where processes die in turn. */
export const places = [...failpointNames, ...artifactFailpointNames]

const SHAPES = 24
/** Lines are stored 200 ms after they were logged; a busy machine, on which everything waits, is allowed more. */
const MOST_LOST_MS = 5000
const OPEN_MS = 180_000
/** Nothing in the workload takes a second by itself: longer means stuck. */
const IDLE_MS = 180_000

export async function campaign(options: CampaignOptions): Promise<Report> {
  const folder = await mkdtemp(join(tmpdir(), "umbra-crash-"))
  const location = options.location ?? join(folder, "store")
  try {
    const work = workload(options.seed, { shapes: SHAPES, jobs: options.jobs })
    const content = join(folder, "content")
    // Sweeps run all the time. What nothing refers to is kept for a minute: no attempt of the workload takes as long.
    const artifacts = { location: content, orphanHours: 1 / 60, sweepSeconds: 1 }
    const task = await writeTask({ folder, location, workload: work, artifacts })
    const deaths = await killAll(task, options)
    await finish(task, options)
    const journal = await openJournal(location)
    try {
      const verdict = await check({ journal, folder, workload: work })
      const { violations, ...kept } = await checkKept({
        ...{ journal, content, folder: join(folder, "kept"), mostLostMs: MOST_LOST_MS },
      })
      return { ...verdict, violations: [...verdict.violations, ...violations], kept, deaths }
    } finally {
      await journal.close()
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Each process has its share of the jobs and dies again and again; how far it may get rises with each death. */
export async function killAll(
  task: string,
  options: CampaignOptions & { readonly draw?: DrawFate },
): Promise<Map<string, number>> {
  const { kills, jobs, processes = 1, draw = drawFate, print } = options
  const deaths = new Map<string, number>()
  let spent = 0
  const dieAgainAndAgain = async (from: number): Promise<void> => {
    const random = randomFrom(options.seed + 1 + from)
    while (spent < kills) {
      const number = ++spent
      const to = Math.ceil((jobs * number) / kills)
      const fate = draw(random, number)
      const place = await live({ task, from, to, step: processes }, fate)
      deaths.set(place, (deaths.get(place) ?? 0) + 1)
      print?.(
        `kill ${number}/${kills}: ${place}${fate.failpoint === undefined ? "" : ` (${fate.failpoint})`}`,
      )
    }
  }
  await Promise.all(Array.from({ length: processes }, (_, from) => dieAgainAndAgain(from)))
  return deaths
}

export type DrawFate = (random: Random, number: number) => Fate

export interface Fate {
  readonly failpoint?: string
  readonly since?: "start" | "open" | "begun"
  readonly afterMs?: number
  /** The first call of an adapter in this life never returns. */
  readonly holdsFirstCall?: boolean
}

/** Three in four at a failpoint, every one of them in turn, first at once and then later; the others at any time. */
function drawFate(random: Random, number: number): Fate {
  if (number % 4 === 0)
    return random.chance(0.25)
      ? { since: "start", afterMs: random.between(50, 1500) }
      : { since: "open", afterMs: random.between(0, 250) }
  const turn = number - Math.ceil(number / 4)
  const name = places[turn % places.length]!
  const isFirst = turn < places.length || name.startsWith("recover")
  const count = isFirst ? 1 : random.pick([1, 2, 3, random.between(4, 12), random.between(4, 40)])
  return { failpoint: `${name}:${count}` }
}

/** Answers where it died. */
async function live(options: LifeOptions, fate: Fate): Promise<string> {
  const life = new Life({
    ...options,
    ...(fate.failpoint === undefined ? {} : { failpoint: fate.failpoint }),
    holdsFirstCall: fate.holdsFirstCall ?? false,
  })
  try {
    if (fate.since === "start") {
      await delay(fate.afterMs)
      return "at start"
    }
    if (!(await life.says("open", OPEN_MS))) return fate.failpoint!.split(":")[0]!
    if (fate.since !== undefined) {
      await life.says(fate.since, IDLE_MS)
      await delay(fate.afterMs)
      return "at random"
    }
    const isIdle = await life.says("idle", IDLE_MS)
    return isIdle ? "at rest" : fate.failpoint!.split(":")[0]!
  } finally {
    await life.kill()
  }
}

/** Nobody kills any more: everything must end, and closing must be clean. */
export async function finish(task: string, { jobs, processes = 1 }: CampaignOptions): Promise<void> {
  const lives = Array.from(
    { length: processes },
    (_, from) => new Life({ task, from, to: jobs, step: processes }),
  )
  try {
    for (const life of lives)
      if (!(await life.says("idle", 4 * IDLE_MS))) throw new Error("the last process ended too early")
    for (const life of lives) await life.close()
  } finally {
    for (const life of lives) await life.kill().catch(() => {})
  }
}
