/** `umbra lineage JOB MESSAGE`: the ancestors and descendants of a message (P5). */
import { UmbraError } from "../../errors.ts"
import { lineagePicture } from "../output/lineage-picture.ts"
import { print } from "../output/print.ts"
import { paintFor } from "../output/terminal.ts"
import { withTarget } from "../target/open.ts"
import type { TargetOptions } from "../target/target.ts"

export interface LineageCommandOptions extends TargetOptions {
  readonly limit: number
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
  const { limit } = options
  const found = await withTarget(options, ({ jobs }) => jobs.lineage(jobId, message, { limit }))
  const { stdout } = process
  if (found.message === null) {
    const text = `Job ${jobId} has no message ${message} yet. The job has not ended; try again later.\n`
    return print(options, found, text)
  }
  const room = stdout.isTTY ? stdout.columns : undefined
  return print(options, found, () => `${lineagePicture(found, paintFor(stdout), room).join("\n")}\n`)
}
