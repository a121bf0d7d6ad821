/** Follows one job to its end: shows it, and on Ctrl-C cancels it, or stops following if the job runs elsewhere. */
import type { RemoteEvent } from "../../client/index.ts"
import { UmbraError } from "../../errors.ts"
import type { JobActivity } from "../../jobs/activity.ts"
import { exitCode } from "../exit.ts"
import type { CommandLog } from "../output/log.ts"

import { type LiveView, liveView, type Routes, type ShownGraph } from "./view.ts"

/** Umbra itself, or a target whose jobs run elsewhere. */
export interface FollowedJobs {
  watch(
    jobId: string,
    options: { readonly signal: AbortSignal; readonly onTrouble: (text: string) => void },
  ): AsyncIterable<RemoteEvent>
  cancel(jobId: string, reason: string): Promise<unknown>
  activity(jobId: string): JobActivity
}

export interface Following {
  readonly jobs: FollowedJobs
  readonly jobId: string
  readonly graph: ShownGraph
  /** For a pipeline: its current routes. */
  readonly routes?: Routes | undefined
  readonly title: string
  readonly stream: NodeJS.WriteStream
  readonly log: CommandLog
  /** false: the job continues without this process, so Ctrl-C only stops following. */
  readonly runsHere: boolean
  /** For a command that has submitted the job itself. */
  readonly early?: EarlySignals | undefined
  /** ` --data-dir D`: for suggested commands … */
  readonly flags: string
  /** … and with the modules too, for suggested commands that run the job. */
  readonly runningFlags: string
}

/** Resolves when the job has ended, or after SIGTERM: then the job is left unfinished. */
export async function follow(following: Following): Promise<"ended" | "stopped"> {
  const { jobs, jobId, graph, routes, title, stream, log, runsHere, early } = following
  const view = liveView(stream, { title, graph, routes, activity: () => jobs.activity(jobId) })
  const stop = new AbortController()
  const interrupts = new Interrupts(following, view)
  const onTerminate = () => stop.abort()
  const onInterrupt = runsHere ? interrupts.receive : onTerminate
  process.on("SIGINT", onInterrupt)
  process.once("SIGTERM", onTerminate)
  for (const signal of early?.release() ?? []) signal === "SIGINT" ? onInterrupt() : onTerminate()
  log.to(text => view.note(text))
  try {
    const onTrouble = (text: string) => view.note(text)
    for await (const event of jobs.watch(jobId, { signal: stop.signal, onTrouble })) view.event(event)
    await interrupts.settled
    return stop.signal.aborted ? "stopped" : "ended"
  } finally {
    log.to(null)
    await view.end()
    process.off("SIGTERM", onTerminate)
    process.off("SIGINT", onTerminate)
  }
}

/** The first Ctrl-C cancels the job, the second exits at once. */
class Interrupts {
  count = 0
  settled: Promise<void> = Promise.resolve()
  readonly #following: Following
  readonly #view: LiveView
  #isRecorded = false

  constructor(following: Following, view: LiveView) {
    this.#following = following
    this.#view = view
  }

  /** Installed until the process ends: closing may take as long as a handler ignores its signal. */
  readonly receive = () => {
    if (++this.count === 1) {
      this.#view.note("Cancelling the job (press Ctrl-C again to exit at once).")
      this.settled = this.#cancel()
    } else this.#leave()
  }

  async #cancel(): Promise<void> {
    const { jobs, jobId } = this.#following
    try {
      await jobs.cancel(jobId, "interrupted")
      this.#isRecorded = true
    } catch (error) {
      // It ended meanwhile.
      if (error instanceof UmbraError && error.code === "E302") this.#isRecorded = true
      else this.#view.note(`The job could not be cancelled: ${(error as Error).message}`)
    }
  }

  #leave(): never {
    const { jobId, flags, runningFlags } = this.#following
    void this.#view.end()
    process.stderr.write(
      this.#isRecorded
        ? `umbra: exited at once. Job ${jobId} is cancelled, so \`umbra resume\` does not continue it; running handlers were killed.\n`
        : `umbra: exited before the cancellation was stored. \`umbra resume${runningFlags}\` continues job ${jobId}, \`umbra jobs cancel ${jobId}${flags}\` cancels it.\n`,
    )
    process.exit(exitCode.failed)
  }
}

/**
 * Ctrl-C and SIGTERM that arrive while a command submits a job, which it cannot cancel or leave yet. They are stored and
 * take effect as soon as the job is followed: otherwise the process would end silently while the job continues. A second
 * signal ends the process at once.
 */
export interface EarlySignals {
  /** The stored signal. From now on the caller handles signals. */
  release(): readonly NodeJS.Signals[]
}

const SIGNALS = ["SIGINT", "SIGTERM"] as const

export function earlySignals(): EarlySignals {
  const came: NodeJS.Signals[] = []
  const receive = (signal: NodeJS.Signals) => {
    came.push(signal)
    if (came.length > 1) process.exit(exitCode.failed)
    process.stderr.write(`umbra: ${signal} takes effect when the job is submitted (repeat to exit at once)\n`)
  }
  for (const signal of SIGNALS) process.on(signal, receive)
  return {
    release() {
      for (const signal of SIGNALS) process.off(signal, receive)
      return came.splice(0)
    },
  }
}
