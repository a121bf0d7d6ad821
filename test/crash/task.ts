import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { ArtifactSettings } from "../../src/artifacts/settings.ts"
import type { WorkerSettings } from "../../src/worker/settings.ts"

export interface TaskWorkload {
  readonly shapes: readonly { readonly definition: object }[]
  readonly jobs: readonly number[]
}

/** What program.js reads. Answers the file. */
export async function writeTask(parts: {
  readonly folder: string
  readonly location: string
  readonly workload: TaskWorkload
  /** That of the engine, unless told: no node is blamed for the deaths of others. */
  readonly lossLimit?: number
  readonly window?: number
  readonly worker?: Partial<WorkerSettings>
  /** Handlers log, and store artifacts here. */
  readonly artifacts?: Partial<ArtifactSettings>
}): Promise<string> {
  const { folder, location, workload, window, worker, artifacts, lossLimit = 3 } = parts
  const file = join(folder, "task.json")
  const task = {
    folder,
    location,
    workflows: workload.shapes.map(shape => shape.definition),
    jobs: workload.jobs,
    window,
    worker,
    artifacts,
    engine: {
      lossLimit,
      parkAfterMs: 200,
      largeOutputBytes: 2000,
      leaseSeconds: 2,
      beatSeconds: 0.3,
    },
  }
  await writeFile(file, JSON.stringify(task))
  return file
}
