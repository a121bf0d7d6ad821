/** `umbra jobs events JOB`: everything that happened to the job (J18). */
import type { RemoteEvent } from "../../client/index.ts"
import { exitCode } from "../exit.ts"
import { type Paint, paintFor, printable, shorten } from "../output/terminal.ts"
import { withTarget } from "../target/open.ts"
import type { TargetOptions } from "../target/target.ts"

export async function events(jobId: string, options: TargetOptions): Promise<number> {
  const found = await withTarget(options, ({ jobs }) => jobs.events(jobId))
  // One line of JSON per event: a job may have a hundred thousand.
  const paint = paintFor(process.stdout)
  for (const event of found)
    process.stdout.write(`${options.json ? JSON.stringify(event) : text(event, paint)}\n`)
  return exitCode.ok
}

const LONGEST_TYPE = "job.dispatching".length

export function text(event: RemoteEvent, paint: Paint): string {
  const { at, type, source, node, item, attempt, payload } = event
  const which =
    node === undefined ? "" : `${printable(node)}${item === undefined ? "" : `[${item}]`}#${attempt}`
  const particulars = Object.keys(payload).length === 0 ? "" : shorten(JSON.stringify(payload), 160)
  return [
    paint.dim(at),
    type.padEnd(LONGEST_TYPE),
    source.padEnd("command".length),
    which,
    paint.dim(printable(particulars)),
  ]
    .join("  ")
    .trimEnd()
}
