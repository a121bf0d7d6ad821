/** `umbra watch [JOB]`: shows a job while it runs, or all changes of jobs' states, until Ctrl-C. */
import { exitCode } from "../exit.ts"
import { readJson, type SubmissionFlags, submitOptions } from "../input/source.ts"
import { paintStatus } from "../jobs/list.ts"
import { formatWorkflow, printSubmitted } from "../output/print.ts"
import { type DeadLetterFlags, errorText, exitCodeWith, leftDeadLetters } from "../output/result.ts"
import { type Paint, paintFor, printable, tookText } from "../output/terminal.ts"
import type { JobChange } from "../target/changes.ts"
import { type Target, type TargetOptions, withTarget } from "../target/open.ts"
import { remoteRunner, seeToItsEnd, withRunner } from "../target/runner.ts"

export interface WatchCommandOptions extends TargetOptions, DeadLetterFlags {
  readonly json?: boolean
}

export function watch(jobId: string | undefined, options: WatchCommandOptions): Promise<number> {
  return withTarget(options, target => {
    if (jobId === undefined) return watchAll(target, options)
    const { json, allowDeadLetters = false } = options
    if (json) return events(target, jobId, { allowDeadLetters })
    return seeToItsEnd(remoteRunner(target), jobId, { allowDeadLetters })
  })
}

/** A line of JSON per event, as in `umbra jobs events --json`, while they happen. */
async function events({ jobs }: Target, jobId: string, flags: DeadLetterFlags): Promise<number> {
  const { signal } = untilInterrupted()
  for await (const event of jobs.watch(jobId, { signal })) process.stdout.write(`${JSON.stringify(event)}\n`)
  const { status } = await jobs.job(jobId)
  return exitCodeWith(status, await leftDeadLetters(jobs, jobId, await jobs.graph(jobId)), flags)
}

async function watchAll({ changes, name }: Target, { json }: WatchCommandOptions): Promise<number> {
  const paint = paintFor(process.stdout)
  if (process.stderr.isTTY)
    process.stderr.write(paintFor(process.stderr).dim(`Watching ${name}; press Ctrl-C to stop.\n`))
  const onTrouble = (text: string) => void process.stderr.write(`${printable(text)}\n`)
  const { signal } = untilInterrupted()
  for await (const change of changes({ signal, onTrouble }))
    process.stdout.write(`${json ? JSON.stringify(change) : line(change, paint)}\n`)
  return exitCode.ok
}

function line(change: JobChange, paint: Paint): string {
  const { job_id, status, workflow, workflow_version } = change
  const at = change.updated_at ?? new Date().toISOString()
  const parts = [
    job_id,
    paintStatus(status, paint),
    printable(formatWorkflow({ workflow, workflow_version })),
    tookText(change),
    errorText(change),
  ]
  return `${paint.dim(at)}  ${parts.filter(Boolean).join("  ")}`.trimEnd()
}

/** The first Ctrl-C ends the command, since no work depends on it; so does a reader that closes the pipe (`| head`). */
function untilInterrupted(): { readonly signal: AbortSignal } {
  const stop = new AbortController()
  process.stdout.once("error", () => stop.abort())
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort())
  return stop
}

/** `umbra submit NAME`: submits a job of a stored workflow; with `--wait`, waits until it has ended. */
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
    const what = `${formatWorkflow(job)} ${how}.`
    return printSubmitted(options, { job, what }, target)
  })
}
