import { createHash } from "node:crypto"
import type { Submit } from "../core/commands.ts"
import { UmbraError } from "../errors.ts"
import type { JobRow, Journal } from "../journal/port/journal.ts"
import type { WorkflowPause } from "../journal/port/registry.ts"
import type { Log } from "../log.ts"
import type { Clock } from "./clock.ts"
import { readEnd } from "./owner/job-result.ts"
import type { JobCommand } from "./remote/commands.ts"

/** How often the pauses are read again: a notification may be lost. */
const REFRESH_MS = 5000
/** A submission that read the pause before it ended may store its job until then. */
const LATE_MS = 60_000
/** The states of a job that was submitted while its workflow was paused; PENDING if it is delayed. */
const HELD = ["PENDING", "QUEUED", "DISPATCHING"] as const
/** Jobs that are resumed at once. */
const PAGE = 100
/** Sent to all processes when a pause was stored. */
export const PAUSES_CHANGED = "pauses"

export interface WorkflowPausesParts {
  readonly journal: Pick<Journal, "registry" | "feed" | "listJobs" | "capabilities">
  readonly clock: Clock
  readonly log: Log
  /** Does this engine own the partition? */
  owns(partition: number): boolean
  command(jobId: string, command: JobCommand): Promise<void>
}

/**
 * Workflows whose new jobs do not begin (`umbra workflows pause`).
 *
 * 1. The pause is a row of the store, of which every process has a copy: a submission costs no query. A job that is
 *    submitted meanwhile is stored with its pause, and waits as a row.
 * 2. After the end of the pause the engine that owns the partition of (owner, name) resumes these jobs, a page at a time.
 *    The row is removed when a walk that began late enough finds none: a crash at any point is continued by the next owner.
 */
export class WorkflowPauses {
  readonly #parts: WorkflowPausesParts
  #pauses = new Map<string, WorkflowPause>()
  #cancelTimer = () => {}
  #releasing: Promise<void> | null = null
  #unlisten: (() => Promise<void>) | null = null
  #isStopped = false

  constructor(parts: WorkflowPausesParts) {
    this.#parts = parts
  }

  async start(): Promise<void> {
    const { feed, capabilities } = this.#parts.journal
    await this.#refresh()
    if (!capabilities.exclusive)
      this.#unlisten = (await feed.listen?.(text => text === PAUSES_CHANGED && void this.#refresh())) ?? null
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancelTimer()
    await this.#unlisten?.()
    await this.#releasing
  }

  /** For a new job of the workflow: absent if it may begin. */
  fields(owner: string, name: string): Pick<Submit, "paused"> {
    if (this.#pauses.size === 0) return {}
    const pause = this.#pauses.get(pauseKey({ owner, name }))
    if (pause === undefined || pause.resumedAt !== null) return {}
    const { pausedBy: by, reason } = pause
    return { paused: { ...(by === null ? {} : { by }), ...(reason === null ? {} : { reason }) } }
  }

  /** The pause, or its end, was stored by this process. Resolves when submissions of this process take it into account. */
  async changed(): Promise<void> {
    this.#parts.journal.feed.notify(PAUSES_CHANGED)
    await this.#read()
    this.#release()
  }

  async #refresh(): Promise<void> {
    if (this.#isStopped) return
    try {
      await this.#read()
      this.#release()
    } catch (error) {
      this.#parts.log.warn({ error: String(error) }, "could not read which workflows are paused; retrying")
    }
    this.#refreshLater()
  }

  #refreshLater(): void {
    this.#cancelTimer()
    // A folder belongs to this process: nothing changes it from outside.
    const isAlone = this.#parts.journal.capabilities.exclusive && this.#pauses.size === 0
    if (!this.#isStopped && !isAlone)
      this.#cancelTimer = this.#parts.clock.after(REFRESH_MS, () => void this.#refresh())
  }

  async #read(): Promise<void> {
    const pauses = await this.#parts.journal.registry.listPauses()
    this.#pauses = new Map(pauses.map(pause => [pauseKey(pause), pause]))
  }

  #release(): void {
    if (this.#releasing !== null || this.#isStopped) return
    const ended = [...this.#pauses.values()].filter(pause => pause.resumedAt !== null && this.#isOurs(pause))
    if (ended.length === 0) return
    this.#releasing = this.#releaseAll(ended)
      .catch(error => this.#parts.log.warn({ error: String(error) }, "could not resume jobs; retrying"))
      .finally(() => {
        this.#releasing = null
        // Not at once: until the pause is settled, walks without a break would keep the event loop busy.
        this.#refreshLater()
      })
  }

  #isOurs(pause: WorkflowPause): boolean {
    const digest = createHash("sha256").update(pauseKey(pause)).digest()
    return this.#parts.owns(digest.readUInt32BE(0) % this.#parts.journal.capabilities.partitions)
  }

  async #releaseAll(ended: readonly WorkflowPause[]): Promise<void> {
    const { clock, journal } = this.#parts
    for (const { owner, name, resumedAt } of ended) {
      const begunAt = clock.now()
      const found = await this.#releaseJobs(owner, name)
      const isSettled = found === 0 && begunAt >= resumedAt! + LATE_MS
      if (isSettled) await journal.registry.settlePause({ owner, name, resumedAt: resumedAt! })
    }
  }

  async #releaseJobs(owner: string, workflow: string): Promise<number> {
    let found = 0
    for (let after: string | undefined; !this.#isStopped; ) {
      const filter = { owner, workflow, statuses: HELD, limit: PAGE, after }
      const { jobs, next } = await this.#parts.journal.listJobs(filter)
      const waiting = jobs.filter(isPausedWithWorkflow)
      found += waiting.length
      await Promise.all(waiting.map(({ id }) => this.#resume(id)))
      if (next === null) break
      after = next
    }
    return found
  }

  /** A job that has ended meanwhile, or was removed, needs nothing. */
  async #resume(jobId: string): Promise<void> {
    try {
      await this.#parts.command(jobId, { type: "resume", ofWorkflow: true })
    } catch (error) {
      if (!(error instanceof UmbraError && (error.code === "E301" || error.code === "E302"))) throw error
    }
  }
}

function isPausedWithWorkflow(row: JobRow): boolean {
  return readEnd(row).paused?.ofWorkflow === true
}

function pauseKey({ owner, name }: { readonly owner: string; readonly name: string }): string {
  return `${owner}\n${name}`
}
