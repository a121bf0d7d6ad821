/**
 * All events of a job as they happen. The stream notifies that something has changed, and the list of events has the
 * changes: they arrive complete, in order and once, however often the connection is lost.
 */
import type { UmbraClient } from "./client.ts"
import { UmbraClientError } from "./error.ts"
import { backoffMs, type Http, isAway, pause } from "./http.ts"
import type { WatchOptions } from "./job.ts"
import type { JobStreamEvent, RemoteEvent } from "./types.ts"

/** The pause after a query, as a multiple of its duration: for a very large job the server folds everything each time. */
const RESTS = 2

type Asked = Pick<UmbraClient, "stream" | "events">
type Patience = Pick<Http["settings"], "patienceMs" | "retryMs" | "maxDelayMs">

export async function* jobEvents(
  client: Asked,
  jobId: string,
  options: WatchOptions,
  patience: Patience,
): AsyncGenerator<RemoteEvent, void, undefined> {
  const changed = new ChangeSignal()
  const stop = new AbortController()
  const abort = () => stop.abort()
  options.signal?.addEventListener("abort", abort, { once: true })
  if (options.signal?.aborted) abort()
  const streaming = follow(
    client.stream(jobId, { ...options, signal: stop.signal }),
    changed,
    options.onProgress,
  )
  try {
    let after: number | undefined
    const { signal } = options
    const look = () => client.events(jobId, { after, signal })
    for (let isOver = false; !isOver && !stop.signal.aborted; ) {
      isOver = await changed.next()
      const began = Date.now()
      const events = await patiently(look, patience, signal)
      const tookMs = Date.now() - began
      after = events.at(-1)?.seq ?? after
      yield* events
      if (!isOver) await pause(RESTS * tookMs, stop.signal)
    }
  } catch (error) {
    if (!options.signal?.aborted) throw error
  } finally {
    options.signal?.removeEventListener("abort", abort)
    abort()
    await streaming
  }
}

/** The server may stop between the notification and the query: that is retried like a lost stream. */
async function patiently<T>(
  ask: () => Promise<T>,
  { patienceMs, retryMs, maxDelayMs }: Patience,
  signal: AbortSignal | undefined,
): Promise<T> {
  const until = Date.now() + patienceMs
  for (let tries = 1; ; tries++) {
    try {
      return await ask()
    } catch (error) {
      const mayPass = error instanceof UmbraClientError && isAway(error)
      if (!mayPass || Date.now() >= until) throw error
      const delay = backoffMs({ initialMs: retryMs, maxMs: maxDelayMs }, tries)
      await pause(Math.max(delay, error.retryAfterMs ?? 0), signal)
    }
  }
}

async function follow(
  stream: AsyncIterable<JobStreamEvent>,
  changed: ChangeSignal,
  onProgress: WatchOptions["onProgress"],
): Promise<void> {
  try {
    for await (const event of stream) {
      if (event.type === "progress") onProgress?.(event.data)
      else changed.notify()
    }
    changed.end()
  } catch (error) {
    changed.fail(error)
  }
}

/** Any number of notifications during a query cause one more query. */
class ChangeSignal {
  #isNew = false
  #isOver = false
  #error: { readonly error: unknown } | null = null
  #wake: () => void = () => {}

  notify(): void {
    this.#isNew = true
    this.#wake()
  }

  end(): void {
    this.#isOver = true
    this.#wake()
  }

  fail(error: unknown): void {
    this.#error = { error }
    this.#wake()
  }

  /** Resolves when there is something to query; true: for the last time. */
  async next(): Promise<boolean> {
    while (!this.#isNew && !this.#isOver && this.#error === null)
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    if (this.#error !== null) throw this.#error.error
    this.#isNew = false
    return this.#isOver
  }
}
