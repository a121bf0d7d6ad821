/** `umbra lineage JOB MESSAGE`: what a message comes from, and what comes from it (P5). */
import { exitCode } from "./exit.ts"
import { lineagePicture } from "./lineage-picture.ts"
import { withPlace } from "./place/open.ts"
import type { PlaceOptions } from "./place/place.ts"
import { paintFor } from "./terminal.ts"

export interface LineageCommandOptions extends PlaceOptions {
  readonly limit: number
  readonly json?: boolean
}

export async function lineage(
  jobId: string,
  message: string,
  options: LineageCommandOptions,
): Promise<number> {
  const { limit, json } = options
  const found = await withPlace(options, ({ jobs }) => jobs.lineage(jobId, message, { limit }))
  const { stdout } = process
  const lines = json
    ? [JSON.stringify(found, null, 2)]
    : lineagePicture(found, paintFor(stdout), stdout.isTTY ? stdout.columns : undefined)
  stdout.write(`${lines.join("\n")}\n`)
  return exitCode.ok
}
