/**
 * A job's whole story as it happens. The stream says that something has changed, the list of events says what: they
 * come complete, in order and once, however often the connection is lost.
 */
import type { JobCommands, WatchOptions } from "./job.ts"
import { pause } from "./patience.ts"
import type { JobStreamEvent, RemoteEvent } from "./types.ts"

/** Times as long as a look took: of a very large job the server folds everything for each. */
const RESTS = 2

type Asked = Pick<JobCommands, "stream" | "events">

export async function* jobEvents(
  client: Asked,
  jobId: string,
  options: WatchOptions,
): AsyncGenerator<RemoteEvent, void, undefined> {
  const news = new News()
  const stop = new AbortController()
  const abort = () => stop.abort()
  options.signal?.addEventListener("abort", abort, { once: true })
  if (options.signal?.aborted) abort()
  const streaming = follow(
    client.stream(jobId, { ...options, signal: stop.signal }),
    news,
    options.onProgress,
  )
  try {
    let after: number | undefined
    for (let isOver = false; !isOver && !stop.signal.aborted; ) {
      isOver = await news.next()
      const { signal } = options
      const began = Date.now()
      const events = await client.events(jobId, {
        ...(after === undefined ? {} : { after }),
        ...(signal === undefined ? {} : { signal }),
      })
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

async function follow(
  stream: AsyncIterable<JobStreamEvent>,
  news: News,
  onProgress: WatchOptions["onProgress"],
): Promise<void> {
  try {
    for await (const event of stream) {
      if (event.type === "progress") onProgress?.(event.data)
      else news.tell()
    }
    news.end()
  } catch (error) {
    news.fail(error)
  }
}

/** However much happens while nobody looks, it is looked at once. */
class News {
  #isNew = false
  #isOver = false
  #error: { readonly error: unknown } | null = null
  #wake: () => void = () => {}

  tell(): void {
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

  /** Resolves when there is something to look at; true: for the last time. */
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
