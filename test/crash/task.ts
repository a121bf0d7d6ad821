import { writeFile } from "node:fs/promises"
import { join } from "node:path"

export interface TaskWorkload {
  readonly shapes: readonly { readonly definition: object }[]
  readonly jobs: readonly number[]
}

/** What program.js reads. Answers the file. */
export async function writeTask(parts: {
  readonly folder: string
  readonly location: string
  readonly workload: TaskWorkload
  /** A node or message is hit by more deaths here than in a lifetime: none of them is its own fault, unless told. */
  readonly lossLimit?: number
}): Promise<string> {
  const { folder, location, workload, lossLimit = 10_000 } = parts
  const file = join(folder, "task.json")
  const task = {
    folder,
    location,
    workflows: workload.shapes.map(shape => shape.definition),
    jobs: workload.jobs,
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
