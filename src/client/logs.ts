/** The log of a job: what its handlers logged, and what the engine did with its nodes. */
import { entries, type Http } from "./http.ts"
import { segment } from "./requests.ts"
import { resumingStream, type StreamOptions } from "./stream.ts"
import type { LogFilter, LogLine, LogPage, LogStreamEvent, LogsOptions } from "./types.ts"

export class RemoteLogs {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** All lines by time; pages are requested as needed. */
  list(jobId: string, options: Omit<LogsOptions, "before"> = {}): AsyncGenerator<LogLine, void, undefined> {
    return entries((after?: string) => this.page(jobId, { ...options, after }), "lines", options.after)
  }

  page(jobId: string, { signal, ...query }: LogsOptions = {}): Promise<LogPage> {
    return this.#http.ask(`/jobs/${segment(jobId)}/logs`, { query: { ...query }, signal })
  }

  /** Lines, until the job has ended. `lastEventId`: the id of the last known line. */
  follow(jobId: string, options: LogFilter & StreamOptions = {}) {
    const { node, item, attempt, level, source, until } = options
    const query = new URLSearchParams({ follow: "true" })
    for (const [name, value] of Object.entries({ node, item, attempt, level, source, until }))
      if (value !== undefined) query.set(name, String(value))
    return resumingStream<LogStreamEvent>(this.#http, `/jobs/${segment(jobId)}/logs?${query}`, options)
  }
}
