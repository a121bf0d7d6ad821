import type { Journal } from "../../journal/port/journal.ts"
import type { ScheduleRow } from "../../journal/port/schedules.ts"

/** Schedules that are read at once: a document has at most 64 KiB. */
const PAGE = 64

/**
 * Ticks that wait for the end of the job before them. The end of a job costs one lookup of its own schedule, however many ticks wait;
 * all of them are checked after a take-over.
 */
export class QueuedTicks {
  readonly #journal: Pick<Journal, "schedules">
  /** Jobs whose end is awaited, with the schedule. */
  readonly #awaited = new Map<string, string>()
  /** Schedules whose queued tick may start. */
  readonly #mayStart = new Set<string>()
  #isListStale = false

  constructor(journal: Pick<Journal, "schedules">) {
    this.#journal = journal
  }

  get hasAwaited(): boolean {
    return this.#awaited.size > 0
  }

  /** There are schedules to read. */
  get hasMore(): boolean {
    return this.#isListStale || this.#mayStart.size > 0
  }

  /** Any of them may start. */
  allMayStart(): void {
    this.#isListStale = true
  }

  waits(schedule: string, jobId: string): void {
    this.#awaited.set(jobId, schedule)
  }

  waitsNoMore(jobId: string): void {
    this.#awaited.delete(jobId)
  }

  /** The job has ended. False: nothing waits for it. */
  ended(jobId: string): boolean {
    const schedule = this.#awaited.get(jobId)
    if (schedule === undefined) return false
    this.#awaited.delete(jobId)
    this.#mayStart.add(schedule)
    return true
  }

  /** The next ones that may start. */
  async read(partitions: readonly number[]): Promise<readonly ScheduleRow[]> {
    const { schedules } = this.#journal
    if (this.#isListStale) {
      this.#isListStale = false
      for (const id of await schedules.queued(partitions)) this.#mayStart.add(id)
    }
    const ids: string[] = []
    for (const id of this.#mayStart) if (ids.push(id) === PAGE) break
    for (const id of ids) this.#mayStart.delete(id)
    const rows = ids.length === 0 ? [] : await schedules.readMany(ids)
    return rows.filter(({ queuedTick }) => queuedTick !== null)
  }
}
