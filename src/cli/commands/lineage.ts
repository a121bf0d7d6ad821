/** `umbra lineage JOB MESSAGE`: the ancestors and descendants of a message (P5). */
import { UmbraError } from "../../errors.ts"
import { exitCode } from "../exit.ts"
import { lineagePicture } from "../output/lineage-picture.ts"
import { paintFor } from "../output/terminal.ts"
import { withTarget } from "../target/open.ts"
import type { TargetOptions } from "../target/target.ts"

export interface LineageCommandOptions extends TargetOptions {
  readonly limit: number
  readonly json?: boolean
}

export async function lineage(
  jobId: string,
  message: string,
  options: LineageCommandOptions,
): Promise<number> {
  if (!/.:\d+$/.test(message))
    throw new UmbraError(
      "E604",
      `"${message}" is not the name of a message. Use ROUTE:NUMBER, for example fetch:12.`,
    )
  const { limit, json } = options
  const found = await withTarget(options, ({ jobs }) => jobs.lineage(jobId, message, { limit }))
  const { stdout } = process
  if (found.message === null && !json) {
    stdout.write(`Job ${jobId} has no message ${message} yet. The job has not ended; try again later.\n`)
    return exitCode.ok
  }
  const lines = json
    ? [JSON.stringify(found, null, 2)]
    : lineagePicture(found, paintFor(stdout), stdout.isTTY ? stdout.columns : undefined)
  stdout.write(`${lines.join("\n")}\n`)
  return exitCode.ok
}
