/** `umbra dead-letters JOB`: messages that failed permanently, and their replay (P4). */
import type { DeadLetter, DeadLetterPage } from "../../client/index.ts"
import { UmbraError } from "../../errors.ts"
import { print, printSubmitted } from "../output/print.ts"
import type { DeadLetterFlags } from "../output/result.ts"
import { count, type Paint, paintFor, printable, shorten } from "../output/terminal.ts"
import { withTarget } from "../target/open.ts"
import { seeToItsEnd } from "../target/own-runner.ts"
import { withRunner } from "../target/runner.ts"
import type { TargetOptions } from "../target/target.ts"

export interface DeadLettersCommandOptions extends TargetOptions, DeadLetterFlags {
  readonly route?: string
  readonly limit: number
  readonly after?: string
  /** true: all. */
  readonly replay?: true | readonly string[]
  readonly workflow?: string
  readonly wait?: boolean
}

export async function deadLetters(jobId: string, options: DeadLettersCommandOptions): Promise<number> {
  if (options.replay !== undefined) return replay(jobId, options)
  for (const name of ["workflow", "wait"] as const)
    if (options[name] !== undefined) throw new UmbraError("E604", `--${name} needs --replay.`)
  const { route, after, limit } = options
  return withTarget(options, async ({ jobs, flags }) => {
    const page = await jobs.deadLetterPage(jobId, { limit, route, after })
    return print(options, page, () => listing(page, { jobId, flags, options }))
  })
}

interface Around {
  readonly jobId: string
  readonly flags: string
  readonly options: DeadLettersCommandOptions
}

function listing({ dead_letters, next }: DeadLetterPage, { jobId, flags, options }: Around): string {
  const route = options.route === undefined ? "" : ` --route ${options.route}`
  if (dead_letters.length === 0)
    return `Job ${jobId} has no dead letters${route === "" ? "" : " of this route"}.\n`
  const paint = paintFor(process.stdout)
  const columns = process.stdout.isTTY ? process.stdout.columns : 200
  const lines = dead_letters.flatMap(letter => linesOf(letter, paint, columns))
  const more = next === null ? "" : `More: umbra dead-letters ${jobId}${route} --after ${next}${flags}\n`
  const isLeft = dead_letters.some(({ replayed_by }) => replayed_by === null)
  const advice = isLeft ? `Replay them: umbra dead-letters ${jobId} --replay${flags}\n` : ""
  return `${lines.join("\n")}\n${paint.dim(`${more}${advice}`)}`
}

function linesOf(letter: DeadLetter, paint: Paint, columns: number): string[] {
  const { id, attempts, failed_at, replayed_by, body } = letter
  const { code, message } = letter.error as { readonly code?: string; readonly message?: string }
  const tries = attempts === 0 ? "no attempt ended" : attempts === 1 ? "1 attempt" : `${attempts} attempts`
  const head = [printable(id), paint.dim(failed_at), tries]
  if (replayed_by !== null) head.push(paint.green(`replayed by job ${replayed_by}`))
  return [
    head.join("  "),
    `  ${paint.red(shorten(printable(`${code} ${message}`), columns - 2))}`,
    `  ${paint.dim(shorten(printable(JSON.stringify(body)), columns - 2))}`,
  ]
}

async function replay(jobId: string, options: DeadLettersCommandOptions): Promise<number> {
  if (options.route !== undefined || options.after !== undefined)
    throw new UmbraError(
      "E604",
      "--replay takes the names of messages, or no name for all. It cannot be combined with --route or --after.",
    )
  const messages = typeof options.replay === "object" ? options.replay : undefined
  const which = { messages, workflow: options.workflow }
  if (options.wait)
    return withRunner(options, async runner => {
      const { job_id } = await runner.replay(jobId, which)
      return seeToItsEnd(runner, job_id, options)
    })
  return withTarget(options, async target => {
    const job = await target.jobs.replay(jobId, which)
    const what = `${count(job.replayed, "message")} will be replayed.`
    return printSubmitted(options, { job, what }, target)
  })
}
