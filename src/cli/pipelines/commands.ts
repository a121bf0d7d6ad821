/** `umbra executions`, and `umbra dead-letters [JOB]`: messages that failed permanently, and their replay (P4). */
import type { DeadLetter, DeadLetterPage, ExecutionPage, Json, Lineage, Message } from "../../client/index.ts"
import { UmbraError } from "../../errors.ts"
import { readText } from "../input/source.ts"
import { formatWorkflow, print, printSubmitted } from "../output/print.ts"
import type { DeadLetterFlags } from "../output/result.ts"
import { latencyText } from "../output/routes-table.ts"
import { count, type Paint, paintFor, printable, shorten } from "../output/terminal.ts"
import { type TargetOptions, withTarget } from "../target/open.ts"
import { seeToItsEnd, withRunner } from "../target/runner.ts"

export interface DeadLettersCommandOptions extends TargetOptions, DeadLetterFlags {
  readonly route?: string
  readonly limit: number
  readonly after?: string
  /** true: all. */
  readonly replay?: true | readonly string[]
  readonly body?: readonly string[]
  readonly workflow?: string
  readonly wait?: boolean
}

export async function deadLetters(
  jobId: string | undefined,
  options: DeadLettersCommandOptions,
): Promise<number> {
  if (jobId === undefined) return withLetters(options)
  if (options.replay !== undefined) return replay(jobId, options)
  for (const name of ["workflow", "wait", "body"] as const)
    if (options[name] !== undefined) throw new UmbraError("E604", `--${name} needs --replay.`)
  const { route, after, limit } = options
  return withTarget(options, async ({ jobs, flags }) => {
    const page = await jobs.deadLetterPage(jobId, { limit, route, after })
    return print(options, page, () => listing(page, { jobId, flags, options }))
  })
}

/** Jobs with dead letters that have not been replayed. */
async function withLetters(options: DeadLettersCommandOptions): Promise<number> {
  for (const name of ["route", "replay", "workflow", "wait", "body"] as const)
    if (options[name] !== undefined) throw new UmbraError("E604", `--${name} needs the id of a job.`)
  return listExecutions(options, {
    command: "dead-letters",
    none: "No job has dead letters that have not been replayed.",
  })
}

export interface ExecutionsCommandOptions extends TargetOptions {
  readonly limit: number
  readonly after?: string
}

/** Jobs of pipelines. */
export async function executions(options: ExecutionsCommandOptions): Promise<number> {
  return listExecutions(options, { command: "executions", none: "No job of a pipeline." })
}

interface Listing {
  readonly command: "executions" | "dead-letters"
  /** Printed in place of an empty list. */
  readonly none: string
}

async function listExecutions(options: ExecutionsCommandOptions, listed: Listing): Promise<number> {
  const { after, limit } = options
  return withTarget(options, async ({ executions, flags }) => {
    const page = await executions({ dead_letters: listed.command === "dead-letters", after, limit })
    return print(options, page, () => executionListing(page, flags, listed))
  })
}

function executionListing(
  { executions, next, complete }: ExecutionPage,
  flags: string,
  { command, none }: Listing,
): string {
  const paint = paintFor(process.stdout)
  const lines = executions.flatMap(execution => {
    const { job_id, status, messages, dead_letters } = execution
    const { count: letters, first } = dead_letters
    const parts = [
      ...[job_id, printable(formatWorkflow(execution)), status],
      command === "executions" ? messagesText(messages) : "",
      letters === 0 ? "" : count(letters, "dead letter"),
      letters === MOST_COUNTED ? "or more" : "",
    ]
    const error = first === null ? "" : `${first.message}  ${first.error.code} ${first.error.message}`
    const head = parts.filter(text => text !== "").join("  ")
    return error === "" ? [head] : [head, `  ${paint.red(shorten(printable(error), 200))}`]
  })
  const after = next === null ? "" : `More: umbra ${command} --after ${next}${flags}\n`
  const bounded = complete ? "" : "Older jobs were not searched.\n"
  const text = lines.length === 0 ? none : lines.join("\n")
  return `${text}\n${paint.dim(`${after}${bounded}`)}`
}

/** `12 queued, 3 retrying, 40 done, 1 failed`; what is 0 is left out, except for `done`. */
function messagesText({
  queued,
  waiting,
  done,
  failed,
}: ExecutionPage["executions"][number]["messages"]): string {
  const parts = [
    [queued, "queued"],
    [waiting, "retrying"],
    [done, "done"],
    [failed, "failed"],
  ] as const
  return parts
    .filter(([number, word]) => number > 0 || word === "done")
    .map(([number, word]) => `${number.toLocaleString("en")} ${word}`)
    .join(", ")
}

/** The server counts no further. */
const MOST_COUNTED = 1000

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
  const lines = dead_letters.flatMap(letter => formatDeadLetter(letter, paint, columns))
  const more = next === null ? "" : `More: umbra dead-letters ${jobId}${route} --after ${next}${flags}\n`
  const isLeft = dead_letters.some(({ replayed_by }) => replayed_by === null)
  const advice = isLeft ? `Replay them: umbra dead-letters ${jobId} --replay${flags}\n` : ""
  return `${lines.join("\n")}\n${paint.dim(`${more}${advice}`)}`
}

function formatDeadLetter(letter: DeadLetter, paint: Paint, columns: number): string[] {
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
  const which = { messages, bodies: await parseBodies(options), workflow: options.workflow }
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

/** `fetch:12={"page": "/about"}`, or `fetch:12=@page.json`. */
async function parseBodies({ body }: DeadLettersCommandOptions): Promise<Record<string, Json> | undefined> {
  if (body === undefined) return undefined
  const bodies: Record<string, Json> = {}
  for (const given of body) {
    const [, message, text] = /^(.+?:\d+)=(.*)$/s.exec(given) ?? []
    if (message === undefined || text === undefined)
      throw new UmbraError("E604", `--body ${given}: use ROUTE:NUMBER=JSON, for example fetch:12={"page":1}.`)
    try {
      bodies[message] = JSON.parse(text.startsWith("@") ? (await readText(text.slice(1))).text : text)
    } catch (error) {
      if (error instanceof UmbraError) throw error
      throw new UmbraError("E604", `--body: the body of ${message} is not JSON: ${(error as Error).message}.`)
    }
  }
  return bodies
}

/** `umbra lineage JOB MESSAGE`: the ancestors and descendants of a message (P5). */
export interface LineageCommandOptions extends TargetOptions {
  readonly limit: number
  readonly depth?: number
  readonly width?: number
  readonly from?: number
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
  const { limit, depth, width, from } = options
  const bounds = { limit, depth, width, from }
  const found = await withTarget(options, ({ jobs }) => jobs.lineage(jobId, message, bounds))
  const { stdout } = process
  if (found.message === null) {
    const text = `Job ${jobId} has no message ${message} yet. The job has not ended; try again later.\n`
    return print(options, found, text)
  }
  const room = stdout.isTTY ? stdout.columns : undefined
  return print(options, found, () => lineagePicture(found, paintFor(stdout), room))
}

/** A message's lineage as a tree: its ancestors above, its descendants below. */
export function lineagePicture(
  { message, inputs, outputs, is_cut }: Lineage,
  paint: Paint,
  room = 200,
): string[] {
  if (message === null) return []
  const draw = new Picture(paint, room)
  const above = new Map(inputs.map(each => [jobMessageKey(each.job_id, each.id), each]))
  const below = new Map(outputs.map(each => [jobMessageKey(each.job_id, each.id), each]))
  return [
    ...draw.inputs(message, above),
    ...draw.message(message, paint.bold("● "), below.size > 0 ? "│ " : "  "),
    ...draw.outputs(message, below),
    ...(is_cut ? [paint.dim("… more messages exist: raise --limit, or show one of these messages.")] : []),
  ]
}

/** By job and message: across a replay, messages of two jobs may have the same name. */
type Known = ReadonlyMap<string, Message>

const jobMessageKey = (job: string, id: string) => `${job}/${id}`
const linked = (link: Message["replay_of"]) =>
  link === null ? [] : [jobMessageKey(link.job_id, link.message)]

class Picture {
  readonly #paint: Paint
  readonly #room: number
  readonly #drawn = new Set<string>()

  constructor(paint: Paint, room: number) {
    this.#paint = paint
    this.#room = room
  }

  /** From the farthest to the nearest. Branches open upwards. */
  inputs(of: Message, known: Known, indent = ""): string[] {
    const own = [...(of.parent === null ? [] : [of.parent]), ...of.gathered]
    const found = this.#fresh(
      [...own.map(id => jobMessageKey(of.job_id, id)), ...linked(of.replay_of)],
      known,
    )
    return found.flatMap((each, i) => {
      const [mark, further] = i === 0 ? ["┌ ", "  "] : ["├ ", "│ "]
      return [
        ...this.inputs(each, known, `${indent}${further}`),
        ...this.message(each, `${indent}${mark}`, `${indent}│ `),
      ]
    })
  }

  outputs(of: Message, known: Known, indent = ""): string[] {
    const into = of.invocations.flatMap(each => each.into ?? [])
    const emitted = [...known.values()]
      .filter(({ parent, job_id }) => parent === of.id && job_id === of.job_id)
      .map(({ id }) => id)
    const own = [...into, ...emitted].map(id => jobMessageKey(of.job_id, id))
    const found = this.#fresh([...own, ...linked(of.replayed_by)], known)
    return found.flatMap((each, i) => {
      const isLast = i === found.length - 1
      const further = `${indent}${isLast ? "  " : "│ "}`
      const own = this.message(each, `${indent}${isLast ? "└ " : "├ "}`, further)
      return [...own, ...this.outputs(each, known, further)]
    })
  }

  /** Messages are drawn once: batches have many inputs, and cycles return to a message. */
  #fresh(ids: readonly string[], known: Known): Message[] {
    const fresh = [...new Set(ids)].filter(id => known.has(id) && !this.#drawn.has(id))
    for (const id of fresh) this.#drawn.add(id)
    return fresh.map(id => known.get(id)!)
  }

  message(message: Message, mark: string, below: string): string[] {
    const { id, status, invocations, gathered, replay_of } = message
    const parts = [
      gathered.length === 0 ? "" : `with ${count(gathered.length, "message")} gathered`,
      replay_of === null ? "" : `replays ${printable(replay_of.message)} of job ${replay_of.job_id}`,
    ]
    const many = parts.filter(Boolean).join("  ")
    const body = message.body_left_out ? "(large)" : JSON.stringify(message.body)
    const head = `${mark}${printable(id)}  ${this.#status(status)}  ${many === "" ? "" : `${many}  `}`
    const rest = this.#room - mark.length - id.length - status.length - many.length - 8
    return [
      `${head}${this.#paint.dim(shorten(printable(body), Math.max(10, rest)))}`,
      ...invocations.map(each => this.#invocation(each, `${this.#paint.dim(below)}  `)),
    ]
  }

  #invocation(invocation: Message["invocations"][number], indent: string): string {
    const { adapter, attempt, status, duration_ms, emitted, into, error } = invocation
    const fault = error as { readonly code?: string; readonly message?: string } | null
    const parts = [
      printable(adapter),
      this.#status(status),
      into === null ? `${latencyText(duration_ms)}${status === "running" ? " so far" : ""}` : "",
      attempt > 1 ? `attempt ${attempt}` : "",
      emitted > 0 ? `→ ${count(emitted, "message")}` : "",
      into === null ? "" : `gathered into ${printable(into)}`,
      fault === null ? "" : this.#paint.red(shorten(printable(`${fault.code} ${fault.message}`), this.#room)),
    ]
    return `${indent}${parts.filter(Boolean).join("  ")}`
  }

  #status(status: Message["status"]): string {
    if (status === "completed") return this.#paint.green(status)
    return status === "failed" ? this.#paint.red(status) : this.#paint.yellow(status)
  }
}
