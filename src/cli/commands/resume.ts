/**
 * `umbra resume`: opens the store as an engine and runs until every unfinished job has ended or waits for something that
 * will not happen soon: a time far away, a signal, a missing handler. Each job is reported once, when that is known.
 */
import type { PipelineNeeds } from "../../broker/port.ts"
import { entries } from "../../client/http.ts"
import type { DeadLettersView } from "../../core/pipeline/view.ts"
import { type JobStatus, jobHasEnded, jobStatuses } from "../../core/states.ts"
import type { GraphView, WaitingOn } from "../../core/view/view.ts"
import type { JobSnapshot } from "../../engine/owner/snapshot.ts"
import { engineSettings } from "../../engine/settings.ts"
import { Reader } from "../../jobs/reader.ts"
import { openJournal } from "../../journal/open.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Log } from "../../log.ts"
import { openUmbra, type Umbra } from "../../umbra.ts"
import { exitCode } from "../exit.ts"
import { loadModules, type Modules } from "../input/modules.ts"
import { existingStore, type StoreOptions, storeName } from "../input/store.ts"
import { commandLog } from "../output/log.ts"
import { print } from "../output/print.ts"
import {
  type DeadLetterFlags,
  errorText,
  exitCodeWith,
  firstError,
  type LeftDeadLetters,
  leftDeadLetters,
} from "../output/result.ts"
import { count, duration, paintFor, printable } from "../output/terminal.ts"
import { inTurn, keepFolder } from "../target/folder-wait.ts"
import { listed } from "../target/open.ts"
import { contentAt } from "../target/store-artifacts.ts"

export interface ResumeOptions extends StoreOptions, Modules, DeadLetterFlags {
  readonly json?: boolean
  readonly patience: number
}

/** The outcome of a job that was unfinished when the command started. */
interface Told {
  readonly job_id: string
  readonly workflow: string
  readonly status: JobStatus
  /** Why the command does not wait for it; null: it has ended. */
  readonly left: string | null
  readonly error: string
  /** Messages that failed permanently, for a pipeline that has ended, or a job that ran one. */
  readonly dead_letters?: DeadLettersView | undefined
}

const UNFINISHED = jobStatuses.filter(status => !jobHasEnded(status))
const PAGE = 500
/** Jobs that are watched concurrently; the engine runs all of them in any case. */
const AT_ONCE = 100
const LOOK_AGAIN_MS = 1000

export async function resume(options: ResumeOptions): Promise<number> {
  const modules = await loadModules(options)
  const location = existingStore(options)
  const { log } = commandLog("warn")
  const { store, unfinished } = await lookFirst(location, log)
  // Before anything else: its jobs resume before the engine has opened.
  const stop = stopSignal()
  const umbra = await openUmbra(store, { ...modules, ...contentAt(location), log })
  try {
    const told = await new Resumption(umbra, options, stop).run(unfinished)
    const code = finish(told, { location, untold: unfinished.length - told.length, ...options })
    return stop.aborted ? exitCode.failed : code
  } finally {
    await umbra.close()
  }
}

function stopSignal(): AbortSignal {
  const stop = new AbortController()
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => {
      process.stderr.write(
        "Stopping; unfinished jobs stay unfinished (press Ctrl-C again to exit at once).\n",
      )
      stop.abort()
      process.once(signal, () => process.exit(exitCode.failed))
    })
  }
  return stop.signal
}

/**
 * Queried before the engine starts: a short job may have ended by the time the engine is open. A folder takes a second to
 * open, so it stays open for the engine.
 */
async function lookFirst(
  location: string,
  log: Log,
): Promise<{ store: string | Journal; unfinished: string[] }> {
  const journal = await inTurn(() => openJournal(location, { log }))
  await keepFolder(location)
  const unfinished = await unfinishedJobs(new Reader(journal))
  if (journal.capabilities.exclusive) return { store: journal, unfinished }
  await journal.close()
  return { store: location, unfinished }
}

/** Newest first: the next job is taken from the end, so the oldest comes first. */
async function unfinishedJobs(reader: Reader): Promise<string[]> {
  const ask = (after?: string) => reader.jobPage({ statuses: UNFINISHED, limit: PAGE, after })
  return (await listed(entries(ask, "jobs"))).map(job => job.job_id)
}

interface Finished {
  readonly location: string
  /** Jobs without a known outcome, since the command was stopped. */
  readonly untold: number
  readonly json?: boolean
  readonly allowDeadLetters?: boolean
}

function finish(told: readonly Told[], finished: Finished): number {
  print(finished, { jobs: told }, () => closing(told, finished))
  const codes = told.map(({ status, left, dead_letters = null }) =>
    left === null ? exitCodeWith(status, dead_letters, finished) : exitCode.ok,
  )
  return codes.every(code => code === exitCode.ok) ? exitCode.ok : exitCode.failed
}

function closing(told: readonly Told[], { location, untold }: Finished): string {
  if (told.length + untold === 0) return `No unfinished jobs in ${storeName(location)}.\n`
  const known = told.filter(job => job.left !== null).length
  const left = known + untold
  const completed = told.filter(job => job.status === "COMPLETED").length
  const rest = told.length - known - completed
  return `${[
    `${count(completed, "job")} completed`,
    rest > 0 ? `${rest} ended otherwise` : "",
    left > 0 ? `${left} left unfinished` : "",
  ]
    .filter(Boolean)
    .join(", ")}.\n`
}

class Resumption {
  readonly #umbra: Umbra
  readonly #options: ResumeOptions
  readonly #signal: AbortSignal
  readonly #reported: Told[] = []
  /** Until then, the jobs of a dead engine may still be taken over. */
  readonly #takenOverBy = performance.now() + takeOverMs()

  constructor(umbra: Umbra, options: ResumeOptions, signal: AbortSignal) {
    this.#umbra = umbra
    this.#options = options
    this.#signal = signal
  }

  async run(unfinished: readonly string[]): Promise<readonly Told[]> {
    const waiting = [...unfinished]
    const next = async (): Promise<void> => {
      for (let id = waiting.pop(); id !== undefined && !this.#signal.aborted; id = waiting.pop())
        await this.#see(id)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, next))
    return this.#reported
  }

  async #see(id: string): Promise<void> {
    let wait = 0
    while (!this.#signal.aborted) {
      const job = await this.#umbra.wait(id, { timeoutMs: wait })
      const left = jobHasEnded(job.status) ? null : await this.#whyLeft(id)
      if (jobHasEnded(job.status) || left !== null)
        return this.#report(job, left, jobHasEnded(job.status) ? await this.#deadLetters(id) : null)
      wait = LOOK_AGAIN_MS
    }
  }

  /** null: it continues here, soon. */
  async #whyLeft(id: string): Promise<string | null> {
    const { running, unserved } = this.#umbra.activity(id)
    if (running.length > 0) return null
    if (!this.#umbra.owns(id))
      return performance.now() < this.#takenOverBy ? null : "is run by another engine on this database"
    const graph = await this.#umbra.graph(id)
    const now = Date.now()
    const waits = graph.waiting_for.map(resumeTime)
    const isSoon = waits.some(at => at !== null && at - now <= this.#options.patience * 1000)
    if (isSoon) return null
    const [missing] = unserved
    if (missing?.lacks !== undefined) return needsText(missing.lacks)
    if (missing !== undefined)
      return missing.provider === null
        ? `needs handler "${missing.handler}" for node ${missing.node}: add --handlers`
        : `needs provider "${missing.provider}" for node ${missing.node}: add --providers`
    return graph.ready_queue.length > 0 ? null : waitText(graph, now)
  }

  async #deadLetters(id: string): Promise<LeftDeadLetters | null> {
    return leftDeadLetters(this.#umbra, id, await this.#umbra.graph(id))
  }

  #report(job: JobSnapshot, left: string | null, dead: LeftDeadLetters | null): void {
    const { job_id, workflow, status } = job
    const dead_letters = dead === null ? undefined : { count: dead.count, first: dead.first }
    const told = { job_id, workflow, status, left, error: errorText(job), dead_letters }
    this.#reported.push(told)
    if (this.#options.json) return
    const paint = paintFor(process.stdout)
    const hasDead = dead !== null && dead.count > 0
    const ended = status !== "COMPLETED" ? paint.red("✗") : hasDead ? paint.yellow("⚠") : paint.green("✓")
    const icon = left === null ? ended : paint.yellow("◔")
    const lost = hasDead
      ? `${count(dead.count, "message")} failed permanently, the first: ${firstError(dead)}`
      : ""
    const what = left ?? [status, told.error, lost].filter(Boolean).join("  ")
    process.stdout.write(`${icon} ${job_id}  ${printable(workflow)}  ${what}\n`)
  }
}

/** A peer is found dead after its lease; two heartbeats later its partitions are ours. */
function takeOverMs(): number {
  const { leaseSeconds, beatSeconds } = engineSettings()
  return (leaseSeconds + 2 * beatSeconds) * 1000
}

function needsText({ adapters, redis }: PipelineNeeds): string {
  if (adapters.length > 0)
    return `needs ${adapters.map(type => `adapter "${type}"`).join(", ")}: add --adapters`
  return redis
    ? "needs workers, which this command cannot reach: use umbra serve --redis-url URL"
    : "needs an engine that runs pipelines"
}

function resumeTime(wait: WaitingOn): number | null {
  if (wait.kind === "external") return wait.next_poll_at
  // It resumes when one of the executions ends; these are unfinished jobs of this store too.
  if (wait.kind === "executions") return Date.now()
  return "at" in wait ? wait.at : "until" in wait ? wait.until : null
}

function whatText(wait: WaitingOn): string {
  switch (wait.kind) {
    case "signal":
      return `signal ${wait.name}`
    case "retry":
      return "its next attempt"
    case "external":
      return `the next poll of provider ${wait.provider}`
    case "slot":
      return `a slot of provider ${wait.provider}`
    case "executions":
      return `one of ${wait.limit} concurrent executions to end`
    case "child":
      return `its child job ${wait.job_id}`
    case "items":
      return `${wait.waiting} of its items`
    case "start_time":
      return "the start of the job"
    default:
      return "a timer"
  }
}

function waitText({ waiting_for }: GraphView, now: number): string | null {
  const [first, ...others] = waiting_for
  if (first === undefined) return null
  const more = others.length === 0 ? "" : ` (and ${count(others.length, "other node")})`
  const at = resumeTime(first)
  const when = at === null ? "" : ` until ${new Date(at).toISOString()} (in ${duration(at - now)})`
  const what = whatText(first)
  return `node ${first.node} waits for ${what}${when}${more}`
}
