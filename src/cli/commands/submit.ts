/** `umbra submit NAME`: submits a job of a stored workflow; with `--wait`, waits until it has ended. */
import { exitCode } from "../exit.ts"
import { readJson } from "../input/json-option.ts"
import { type SubmissionFlags, submitOptions } from "../input/submit-options.ts"
import type { DeadLetterFlags } from "../output/left-dead-letters.ts"
import { withTarget } from "../target/open.ts"
import { seeToItsEnd, withRunner } from "../target/runner.ts"
import type { TargetOptions } from "../target/target.ts"

export interface SubmitCommandOptions extends TargetOptions, SubmissionFlags, DeadLetterFlags {
  readonly input?: string
  readonly wait?: boolean
  readonly json?: boolean
}

export async function submit(reference: string, options: SubmitCommandOptions): Promise<number> {
  const input = await readJson("--input", options.input)
  if (options.wait)
    return withRunner(options, async runner => {
      const { job_id } = await runner.submit(reference, input, submitOptions(options))
      return seeToItsEnd(runner, job_id, options)
    })
  return withTarget(options, async target => {
    const job = await target.jobs.accept(reference, input, submitOptions(options))
    // Standard output has only the id, for scripts.
    process.stdout.write(options.json ? `${JSON.stringify(job, null, 2)}\n` : `${job.job_id}\n`)
    if (!options.json) process.stderr.write(next(job, target))
    return exitCode.ok
  })
}

function next(
  {
    job_id,
    is_new,
    workflow,
    workflow_version,
  }: { job_id: string; is_new: boolean; workflow: string; workflow_version: number },
  { isRun, flags }: { readonly isRun: boolean; readonly flags: string },
): string {
  const what = `${workflow}@${workflow_version} ${is_new ? "submitted" : "was already submitted with this key"}.`
  return isRun
    ? `${what} Follow the job: umbra watch ${job_id}${flags}\n`
    : `${what} If no engine runs on this store, start one: umbra serve${flags}, or umbra resume${flags}\n`
}
