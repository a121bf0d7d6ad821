/** Schedules: workflows that start at times. */
import { type Http, headerText, newKey } from "./http.ts"
import { segment } from "./requests.ts"
import type {
  BackfillCount,
  BackfillRange,
  BackfillRequest,
  BulkOperation,
  PageOptions,
  Schedule,
  ScheduleFire,
  SchedulePreview,
  SchedulePreviewRequest,
  ScheduleRequest,
  ScheduleSummary,
  ScheduleTick,
  Signalled,
} from "./types.ts"

export class RemoteSchedules {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Stores a schedule, or changes it. */
  put(name: string, schedule: ScheduleRequest, { signal }: Signalled = {}): Promise<Schedule> {
    return this.#http.ask(schedulePath(name), { method: "PUT", safe: true, body: schedule, signal })
  }

  get(name: string, options: Signalled = {}): Promise<Schedule> {
    return this.#http.ask(schedulePath(name), options)
  }

  /** By name; pages are requested as needed. `fires`: so many of the newest fires of each are included, at most 20. */
  async *list({
    limit,
    fires,
    signal,
  }: PageOptions & { readonly fires?: number } = {}): AsyncGenerator<ScheduleSummary, void, undefined> {
    yield* this.#http.list<ScheduleSummary>("/schedules", "schedules", { query: { limit, fires }, signal })
  }

  /** What its ticks did, newest first; pages are requested as needed. */
  async *fires(
    name: string,
    { limit, signal }: PageOptions = {},
  ): AsyncGenerator<ScheduleFire, void, undefined> {
    const path = `${schedulePath(name)}/fires`
    yield* this.#http.list<ScheduleFire>(path, "fires", { query: { limit }, signal }, "before")
  }

  /** What the ticks of a range did, and those that are planned, oldest first; pages are requested as needed. */
  async *ticks(
    name: string,
    { from, to, limit, signal }: PageOptions & { readonly from: string; readonly to: string },
  ): AsyncGenerator<ScheduleTick, void, undefined> {
    const path = `${schedulePath(name)}/ticks`
    yield* this.#http.list<ScheduleTick>(path, "ticks", { query: { from, to, limit }, signal })
  }

  /** Checks a schedule that is not stored, and returns its next ticks. */
  preview(schedule: SchedulePreviewRequest, { signal }: Signalled = {}): Promise<SchedulePreview> {
    return this.#http.ask("/schedules/preview", { method: "POST", safe: true, body: schedule, signal })
  }

  /** Ticks that are due while it is paused never fire. */
  pause(name: string): Promise<Schedule> {
    return this.#http.ask(`${schedulePath(name)}/pause`, { method: "POST", safe: true })
  }

  /** It continues with the next tick from now. */
  resume(name: string): Promise<Schedule> {
    return this.#http.ask(`${schedulePath(name)}/resume`, { method: "POST", safe: true })
  }

  /** Starts a job now. Not sent again if its answer was lost: that would start another. */
  run(name: string): Promise<{ readonly job_id: string }> {
    return this.#http.ask(`${schedulePath(name)}/run`, { method: "POST" })
  }

  /** Counts the ticks that a backfill would start; nothing is stored. */
  previewBackfill(name: string, range: BackfillRange, { signal }: Signalled = {}): Promise<BackfillCount> {
    const body = { ...range, dry_run: true }
    return this.#http.ask(`${schedulePath(name)}/backfill`, { method: "POST", safe: true, body, signal })
  }

  /**
   * Starts a job for each past tick of the range, as a bulk operation (`client.bulk`). It is sent again if its answer was
   * lost, and still starts once.
   */
  backfill(
    name: string,
    request: BackfillRequest,
    { idempotencyKey = newKey(), signal }: Signalled & { readonly idempotencyKey?: string } = {},
  ): Promise<BulkOperation> {
    const headers = { "idempotency-key": headerText(idempotencyKey) }
    const path = `${schedulePath(name)}/backfill`
    return this.#http.ask(path, { method: "POST", safe: true, headers, body: request, signal })
  }

  /** Its jobs stay. */
  async delete(name: string): Promise<void> {
    await this.#http.ask(schedulePath(name), { method: "DELETE" })
  }
}

function schedulePath(name: string): string {
  return `/schedules/${segment(name)}`
}
