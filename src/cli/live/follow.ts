/** Follows one job of this process to its end: shows it, and lets Ctrl-C cancel it. */
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { Umbra } from "../../umbra.ts"
import { exitCode } from "../exit.ts"
import type { CommandLog } from "../log.ts"
import { type LiveView, liveView } from "./view.ts"

export interface Following {
  readonly umbra: Umbra
  readonly jobId: string
  readonly plan: Plan
  readonly title: string
  readonly stream: NodeJS.WriteStream
  readonly log: CommandLog
  /** ` --data-dir D`: for commands that are suggested. */
  readonly storeFlags: string
}

/** Resolves when the job has ended, or when the process was asked to stop (SIGTERM): then the job is left as it is. */
export async function follow(following: Following): Promise<"ended" | "stopped"> {
  const { umbra, jobId, plan, title, stream, log } = following
  const view = liveView(stream, { title, graph: plan, activity: () => umbra.activity(jobId) })
  const stop = new AbortController()
  const interrupts = new Interrupts(following, view)
  const onTerminate = () => stop.abort()
  process.on("SIGINT", interrupts.receive)
  process.once("SIGTERM", onTerminate)
  log.to(text => view.note(text))
  try {
    for await (const event of umbra.watch(jobId, { signal: stop.signal })) view.event(event)
    await interrupts.settled
    return stop.signal.aborted ? "stopped" : "ended"
  } finally {
    log.to(null)
    view.end()
    process.off("SIGTERM", onTerminate)
  }
}

/** The first Ctrl-C cancels the job, the second leaves at once, whatever is still going on. */
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

  /** Stays in place until the process ends: closing may take as long as a handler ignores its signal. */
  readonly receive = () => {
    if (++this.count === 1) {
      this.#view.note("Cancelling the job (Ctrl-C again leaves at once).")
      this.settled = this.#cancel()
    } else this.#leave()
  }

  async #cancel(): Promise<void> {
    const { umbra, jobId } = this.#following
    try {
      await umbra.cancel(jobId, "interrupted")
      this.#isRecorded = true
    } catch (error) {
      // It ended by itself in the meantime.
      if (error instanceof UmbraError && error.code === "E302") this.#isRecorded = true
      else this.#view.note(`The job could not be cancelled: ${(error as Error).message}`)
    }
  }

  #leave(): never {
    const { jobId, storeFlags } = this.#following
    this.#view.end()
    process.stderr.write(
      this.#isRecorded
        ? `umbra: left at once. Job ${jobId} is cancelled, so \`umbra resume\` does not go on with it; handlers that had not stopped were cut off.\n`
        : `umbra: left before the cancellation was recorded. \`umbra resume${storeFlags}\` goes on with job ${jobId}, \`umbra jobs cancel ${jobId}${storeFlags}\` cancels it.\n`,
    )
    process.exit(exitCode.failed)
  }
}
