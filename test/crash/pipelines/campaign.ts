/** The crash test of pipelines: processes are killed at any moment until all kills are spent and all has drained. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openJournal } from "../../../src/journal/open.ts"
import { type CampaignOptions, type Fate, finish, killAll } from "../campaign.ts"
import type { Random } from "../random.ts"
import { writeTask } from "../task.ts"
import { checkPipelines, type PipelineVerdict } from "./check.ts"
import { pipelineWorkload } from "./workload.ts"

export interface PipelineReport extends PipelineVerdict {
  /** How many died at each time of their life. */
  readonly deaths: ReadonlyMap<string, number>
}

/** On PostgreSQL it must keep the times of its commits (`track_commit_timestamp`). */
export async function pipelineCampaign(options: CampaignOptions): Promise<PipelineReport> {
  const folder = await mkdtemp(join(tmpdir(), "umbra-crash-"))
  const location = options.location ?? join(folder, "store")
  try {
    const workload = pipelineWorkload(options.seed, options.jobs)
    // A message is hit by more deaths here than in a lifetime, and none of them is its own fault.
    const task = await writeTask({ folder, location, workload, lossLimit: 10_000 })
    const draw = (random: Random, number: number) => drawFate(random, number, options.processes ?? 1)
    const deaths = await killAll(task, { ...options, draw })
    await finish(task, options)
    const journal = await openJournal(location)
    try {
      const verdict = await checkPipelines({ journal, folder, workload, commitsAt: options.location })
      return { ...verdict, deaths }
    } finally {
      await journal.close()
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * The first life of each process never ends its first call, so it is killed with a message in flight: the first call of
 * all is made in one of these lives. After that commits follow each other within milliseconds, and any moment will do.
 */
function drawFate(random: Random, number: number, processes: number): Fate {
  if (number <= processes) return { since: "begun", afterMs: random.between(0, 50), holdsFirstCall: true }
  if (random.chance(0.1)) return { since: "start", afterMs: random.between(50, 1500) }
  return { since: "begun", afterMs: random.pick([random.between(0, 50), random.between(0, 600)]) }
}
