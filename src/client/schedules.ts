/** Schedules: workflows that start at times. */
import { type Http, pages } from "./http.ts"
import { segment } from "./requests.ts"
import type {
  PageOptions,
  Schedule,
  ScheduleFire,
  ScheduleRequest,
  ScheduleSummary,
  Signalled,
} from "./types.ts"

export class Schedules {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Stores a schedule, or changes it. */
  put(name: string, schedule: ScheduleRequest, { signal }: Signalled = {}): Promise<Schedule> {
    return this.#http.ask(pathOf(name), { method: "PUT", safe: true, body: schedule, signal })
  }

  get(name: string, options: Signalled = {}): Promise<Schedule> {
    return this.#http.ask(pathOf(name), options)
  }

  /** By name; pages are requested as needed. */
  async *list({ limit, signal }: PageOptions = {}): AsyncGenerator<ScheduleSummary, void, undefined> {
    type Page = { schedules: readonly ScheduleSummary[]; next: string | null }
    const ask = (after?: string) => this.#http.ask<Page>("/schedules", { query: { after, limit }, signal })
    for await (const { schedules } of pages(ask)) yield* schedules
  }

  /** What its ticks did, newest first; pages are requested as needed. */
  async *fires(
    name: string,
    { limit, signal }: PageOptions = {},
  ): AsyncGenerator<ScheduleFire, void, undefined> {
    type Page = { fires: readonly ScheduleFire[]; next: string | null }
    const ask = (before?: string) =>
      this.#http.ask<Page>(`${pathOf(name)}/fires`, { query: { before, limit }, signal })
    for await (const { fires } of pages(ask)) yield* fires
  }

  /** Ticks that come meanwhile never fire. */
  pause(name: string): Promise<Schedule> {
    return this.#http.ask(`${pathOf(name)}/pause`, { method: "POST", safe: true })
  }

  /** It continues with the next tick from now. */
  resume(name: string): Promise<Schedule> {
    return this.#http.ask(`${pathOf(name)}/resume`, { method: "POST", safe: true })
  }

  /** Starts a job now. Not sent again if its answer was lost: that would start another. */
  run(name: string): Promise<{ readonly job_id: string }> {
    return this.#http.ask(`${pathOf(name)}/run`, { method: "POST" })
  }

  /** Its jobs stay. */
  async delete(name: string): Promise<void> {
    await this.#http.ask(pathOf(name), { method: "DELETE" })
  }
}

function pathOf(name: string): string {
  return `/schedules/${segment(name)}`
}
