import { type Fault, isRateLimited } from "../core/faults.ts"
import type { Journal } from "../journal/port.ts"
import type { Clock } from "./clock.ts"

export interface PaceParts {
  readonly journal: Journal
  readonly clock: Clock
  /** Asks until the store has answered. */
  readonly patiently: <T>(ask: () => Promise<T>) => Promise<T>
  readonly until: (at: number) => Promise<void>
}

interface Waiting {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

interface Queue {
  readonly waiting: Waiting[]
  isBusy: boolean
}

/**
 * The outbound rate of providers (X6), shared by all processes.
 *
 * 1. Places are taken at most a second ahead, whoever waits: a provider that says "too many" is heeded by all who have
 *    none yet, and in this process by those who have one, too.
 * 2. Those who wait here are served in order, with one question at a time for each provider.
 * 3. A provider without a rate is asked as often as anybody likes, and left alone by all when it says so: a process
 *    that asks it looks once a second whether it has.
 */
export class Pace {
  readonly #parts: PaceParts
  readonly #queues = new Map<string, Queue>()
  /** By provider: nothing goes out from here before that. */
  readonly #stopped = new Map<string, number>()
  /** By provider without a rate: whether others were told to wait. */
  readonly #looked = new Map<string, { readonly at: number; readonly done: Promise<void> }>()

  constructor(parts: PaceParts) {
    this.#parts = parts
  }

  /** For a request that is made, sooner or later. */
  async turn(provider: string, rate: number | null): Promise<void> {
    const { patiently, until } = this.#parts
    const place = () => (rate === null ? patiently(() => this.#look(provider)) : this.#place(provider, rate))
    await place()
    for (let stop = this.#stop(provider); stop !== null; stop = this.#stop(provider)) {
      await until(stop)
      await place()
    }
  }

  /** For a request that can also be made later. null: go ahead; else when its place would be, which is too far away. */
  async goAhead(provider: string, rate: number | null, maxWaitMs: number): Promise<number | null> {
    const { clock, until } = this.#parts
    const latest = clock.now() + maxWaitMs
    if (rate === null) await this.#look(provider)
    else {
      for (;;) {
        const { taken, at } = await this.#take(provider, rate, Math.min(maxWaitMs, AHEAD_MS))
        if (!taken && at > latest) return at
        await until(taken ? at : at - AHEAD_MS)
        if (taken) break
      }
    }
    const stop = this.#stop(provider)
    if (stop === null) return null
    if (rate !== null || stop > latest) return stop
    await until(stop)
    return null
  }

  /** A request has failed. What asks for time is heeded, from now on, by everybody. */
  async heed(provider: string, fault: Fault): Promise<void> {
    const { journal, clock } = this.#parts
    if (!isRateLimited(fault) && fault.retry_after_seconds === undefined) return
    const asked = fault.retry_after_seconds ?? 0
    const until = clock.now() + Math.min(Math.max(asked, LEAST_STOP_SECONDS), MOST_STOP_SECONDS) * 1000
    this.#stopUntil(provider, until)
    await journal.providers.slowDown({ provider, until })
  }

  #look(provider: string): Promise<void> {
    const { clock, journal } = this.#parts
    const now = clock.now()
    const known = this.#looked.get(provider)
    if (known !== undefined && now - known.at < AHEAD_MS) return known.done
    const done = journal.providers.restUntil({ provider }).then(until => this.#stopUntil(provider, until))
    this.#looked.set(provider, { at: now, done })
    done.catch(() => this.#looked.delete(provider))
    return done
  }

  #stopUntil(provider: string, until: number): void {
    this.#stopped.set(provider, Math.max(until, this.#stopped.get(provider) ?? 0))
  }

  #stop(provider: string): number | null {
    const until = this.#stopped.get(provider)
    if (until === undefined) return null
    if (until > this.#parts.clock.now()) return until
    this.#stopped.delete(provider)
    return null
  }

  #place(provider: string, rate: number): Promise<void> {
    let queue = this.#queues.get(provider)
    if (queue === undefined) {
      queue = { waiting: [], isBusy: false }
      this.#queues.set(provider, queue)
    }
    const { waiting } = queue
    const served = new Promise<void>((resolve, reject) => waiting.push({ resolve, reject }))
    void this.#serve(provider, rate, queue)
    return served
  }

  /** Never rejects: what goes wrong is told to all who wait. */
  async #serve(provider: string, rate: number, queue: Queue): Promise<void> {
    if (queue.isBusy) return
    queue.isBusy = true
    const { patiently, until } = this.#parts
    try {
      while (queue.waiting.length > 0) {
        const { taken, at } = await patiently(() => this.#take(provider, rate, AHEAD_MS))
        if (taken) void until(at).then(queue.waiting.shift()!.resolve)
        else await until(at - AHEAD_MS)
      }
    } catch (error) {
      for (const { reject } of queue.waiting.splice(0)) reject(error)
    } finally {
      queue.isBusy = false
    }
  }

  #take(provider: string, rate: number, maxWaitMs: number) {
    const { journal, clock } = this.#parts
    return journal.providers.takeRate({ provider, intervalMs: 1000 / rate, at: clock.now(), maxWaitMs })
  }
}

const AHEAD_MS = 1000
/** Also where a provider asks for less: it has just said that it was too much. */
const LEAST_STOP_SECONDS = 1
/** A slip in one answer must not stop everybody for a year. */
const MOST_STOP_SECONDS = 3600
