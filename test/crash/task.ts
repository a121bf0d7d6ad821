import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Workload } from "./workload.ts"

/** What program.js reads. Answers the file. */
export async function writeTask(parts: {
  readonly folder: string
  readonly location: string
  readonly workload: Workload
}): Promise<string> {
  const { folder, location, workload } = parts
  const file = join(folder, "task.json")
  const task = {
    folder,
    location,
    workflows: workload.shapes.map(shape => shape.definition),
    jobs: workload.jobs,
    engine: {
      // A node is hit by more deaths here than in a lifetime; none of them is its own fault.
      lossLimit: 10_000,
      parkAfterMs: 200,
      largeOutputBytes: 2000,
      leaseSeconds: 2,
      beatSeconds: 0.3,
    },
  }
  await writeFile(file, JSON.stringify(task))
  return file
}
