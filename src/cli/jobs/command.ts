/**
 * `umbra jobs cancel|retry|delete|signal|pause|resume|reschedule|describe JOB`. Without a job the first three are for all jobs that match
 * a filter.
 */
import type { JobSnapshot } from "../../client/index.ts"
import type { Json } from "../../core/json.ts"
import { UmbraError } from "../../errors.ts"
import { readJson, type SubmissionFlags, startOptions } from "../input/source.ts"
import { print } from "../output/print.ts"
import type { DeadLetterFlags } from "../output/result.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"
import { seeToItsEnd, withRunner } from "../target/runner.ts"
import { type BulkFlags, isForMany, startBulk } from "./bulk.ts"

export interface RetryOptions extends BulkFlags, DeadLetterFlags {
  readonly wait?: boolean
}

export interface SignalOptions extends TargetOptions {
  readonly data?: string
  readonly resumeToken?: string
}

export async function cancel(jobId: string | undefined, options: BulkFlags): Promise<number> {
  if (isForMany(jobId, options)) return startBulk("cancel", options)
  const job = await withTarget(options, ({ jobs }) => jobs.cancel(jobId, options.reason))
  return told(job, options, "is cancelled; its completed nodes stay completed.")
}

export async function pause(
  jobId: string,
  options: TargetOptions & { readonly reason?: string },
): Promise<number> {
  const job = await withTarget(options, ({ jobs }) => jobs.pause(jobId, options))
  return told(job, options, "is paused: nodes that run finish, no new node starts.")
}

export async function resume(jobId: string, options: TargetOptions): Promise<number> {
  return withTarget(options, async target => {
    const job = await target.jobs.resume(jobId)
    const what = target.isRun
      ? "is resumed."
      : `is resumed. No engine runs it yet; start one with \`umbra resume${target.flags}\`.`
    return told(job, options, what)
  })
}

export async function reschedule(
  jobId: string,
  options: TargetOptions & Pick<SubmissionFlags, "startAt" | "delay">,
): Promise<number> {
  if (options.startAt === undefined && options.delay === undefined)
    throw new UmbraError("E604", "give --start-at TIME or --delay DURATION.")
  const job = await withTarget(options, ({ jobs }) => jobs.reschedule(jobId, startOptions(options)))
  return print(
    options,
    job,
    `Job ${jobId} ${job.status === "PENDING" ? `starts at ${job.start_at}` : "has started"}.\n`,
  )
}

export interface DescribeOptions extends TargetOptions {
  readonly label?: { readonly [key: string]: string }
  readonly labels?: false
  readonly note?: string | false
}

/** `--label` adds to the labels that the job has; `--no-labels` removes those first. */
export async function describe(jobId: string, options: DescribeOptions): Promise<number> {
  const { label, labels, note } = options
  if (label === undefined && labels !== false && note === undefined)
    throw new UmbraError("E604", "give --label NAME=VALUE, --no-labels, --note TEXT or --no-note.")
  const job = await withTarget(options, async ({ jobs }) => {
    const known = labels === false || label === undefined ? {} : (await jobs.job(jobId)).labels
    return jobs.describe(jobId, {
      labels: label === undefined && labels !== false ? undefined : { ...known, ...label },
      note: note === undefined ? undefined : note === false ? null : note,
    })
  })
  return print(options, job, `Job ${jobId} has the new description.\n`)
}

export async function remove(jobId: string | undefined, options: BulkFlags): Promise<number> {
  if (isForMany(jobId, options)) return startBulk("delete", options)
  await withTarget(options, ({ jobs }) => jobs.delete(jobId))
  const what = "is deleted: lists hide it, and retention removes it."
  return told({ job_id: jobId, status: "DELETED" }, options, what)
}

export async function signal(jobId: string, name: string, options: SignalOptions): Promise<number> {
  const data = ((await readJson("--data", options.data)) ?? null) as Json
  const { resumeToken } = options
  const token = resumeToken === undefined ? {} : { resumeToken }
  const job = await withTarget(options, ({ jobs }) => jobs.signal(jobId, name, data, token))
  return told(job, options, `received signal ${name}.`)
}

export async function retry(jobId: string | undefined, options: RetryOptions): Promise<number> {
  if (isForMany(jobId, options)) {
    if (options.wait)
      throw new UmbraError(
        "E604",
        "--wait is for one job; `umbra resume` runs the unfinished jobs of a store.",
      )
    return startBulk("retry", options)
  }
  if (options.wait) return retryAndWait(jobId, options)
  return withTarget(options, async target => {
    const job = await target.jobs.retry(jobId)
    const what = target.isRun
      ? "is retried: an engine of the server runs its unfinished nodes."
      : `will be retried. No engine runs it yet; start one with \`umbra resume${target.flags}\`.`
    return told(job, options, what)
  })
}

/** Retries the job and waits until it has ended; its nodes run in this process unless another engine has the job. */
async function retryAndWait(jobId: string, options: RetryOptions): Promise<number> {
  return withRunner(options, async runner => {
    const missing = runner.missing((await runner.graph(jobId)).nodes, jobId)
    if (missing !== undefined)
      throw new UmbraError(
        "E103",
        `node ${missing.id} needs handler "${missing.handler}". Add the module that defines it with --handlers.`,
      )
    await runner.retry(jobId)
    return seeToItsEnd(runner, jobId, options)
  })
}

type Told = Pick<JobSnapshot, "job_id" | "status">

function told({ job_id, status }: Told, options: TargetOptions, what: string): number {
  return print(options, { job_id, status }, `Job ${job_id} ${what}\n`)
}
