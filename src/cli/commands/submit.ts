/** `umbra submit NAME`: submits a job of a stored workflow; with `--wait`, waits until it has ended. */
import { readJson, type SubmissionFlags, submitOptions } from "../input/submission.ts"
import { printSubmitted } from "../output/print.ts"
import type { DeadLetterFlags } from "../output/result.ts"
import { withTarget } from "../target/open.ts"
import { seeToItsEnd } from "../target/own-runner.ts"
import { withRunner } from "../target/runner.ts"
import type { TargetOptions } from "../target/target.ts"

export interface SubmitCommandOptions extends TargetOptions, SubmissionFlags, DeadLetterFlags {
  readonly input?: string
  readonly wait?: boolean
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
    const how = job.is_new ? "submitted" : "was already submitted with this key"
    const what = `${job.workflow}@${job.workflow_version} ${how}.`
    return printSubmitted(options, { job, what }, target)
  })
}
