import { type Fault, isRateLimited } from "../../core/faults.ts"
import { valueIn } from "../../core/maps.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Clock } from "../clock.ts"

export interface ProviderRateParts {
  readonly journal: Journal
  readonly clock: Clock
  /** Retries until the store has answered. */
  readonly untilStoreAnswers: <T>(ask: () => Promise<T>) => Promise<T>
  /** Waits for the time; returns how late the timer fired, in ms. */
  readonly until: (at: number) => Promise<number>
  readonly guardMs: number
}

/** A request to a provider, made for one owner's operation. */
export interface RateRequest {
  readonly provider: string
  readonly owner: string
  /** Requests a second; null: no limit. */
  readonly rate: number | null
  readonly ratePerOwner: number | null
}

interface Waiting {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
  /** Number of places that it could not use in time. */
  missed: number
}

/** Owners take turns: the first of the map is next, and moves to the end. */
interface Queue {
  readonly waiting: Map<string, Waiting[]>
  /** Requests that missed their place; they go before all others. */
  readonly missed: Waiting[]
  /** When the next place is, as far as this process knows; 0: no request had to wait. */
  nextAt: number
  isBusy: boolean
}

/**
 * The outbound rate of providers (X6), shared by all processes.
 *
 * 1. Places are taken at most a second ahead, however many requests wait: when a provider answers "too many requests", all
 *    requests without a place wait, and in this process also those with one.
 * 2. For each provider one query at a time takes places for the requests that wait here: owners in turn, requests of one
 *    owner in order.
 * 3. An owner's own rate comes first: a request waits for its place in that rate before it takes one in the provider's, so
 *    that an owner over its rate does not delay other owners.
 * 4. Places are (1 s + guard) / rate apart: even if a request reaches the provider later than another by up to the guard,
 *    no second has more requests than the rate. A place that could not be used in time, because the store or this
 *    process was slow, is given up for another one.
 * 5. Requests to a provider without a rate are not limited, but all processes stop when the provider asks for a pause: a
 *    process that sends requests to it checks once a second whether it has.
 */
export class ProviderRate {
  readonly #parts: ProviderRateParts
  /** By the subject of the rate: a provider, or an owner at a provider. */
  readonly #queues = new Map<string, Queue>()
  /** By provider: no request is sent from here before this time. */
  readonly #pausedUntil = new Map<string, number>()
  /** By provider without a rate: the last check whether a pause is stored. */
  readonly #pauseChecks = new Map<string, { readonly at: number; readonly done: Promise<void> }>()

  constructor(parts: ProviderRateParts) {
    this.#parts = parts
  }

  /** For a request that will be sent in any case. */
  async waitForPlace({ provider, owner, rate, ratePerOwner }: RateRequest): Promise<void> {
    const { untilStoreAnswers, until } = this.#parts
    const place = () =>
      rate === null ? untilStoreAnswers(() => this.#checkPause(provider)) : this.#place(provider, owner, rate)
    if (ratePerOwner !== null) await this.#place(ownKey(provider, owner), owner, ratePerOwner)
    await place()
    for (let stop = this.#pauseEnd(provider); stop !== null; stop = this.#pauseEnd(provider)) {
      await until(stop)
      await place()
    }
  }

  /** For a request that can be postponed. null: send it now; otherwise the time of its place, which is too far away. */
  async tryPlace(request: RateRequest, maxWaitMs: number): Promise<number | null> {
    const { clock, until } = this.#parts
    const { provider, owner, rate, ratePerOwner } = request
    const latest = clock.now() + maxWaitMs
    if (ratePerOwner !== null) {
      const later = await this.#placeBefore(latest, ownKey(provider, owner), ratePerOwner)
      if (later !== null) return later
    }
    if (rate === null) await this.#checkPause(provider)
    else {
      const later = await this.#placeBefore(latest, provider, rate)
      if (later !== null) return later
    }
    const stop = this.#pauseEnd(provider)
    if (stop === null) return null
    if (rate !== null || stop > latest) return stop
    await until(stop)
    return null
  }

  async #placeBefore(latest: number, key: string, rate: number): Promise<number | null> {
    const { clock, until } = this.#parts
    for (let missed = 0; ; ) {
      const maxWaitMs = Math.max(0, Math.min(latest - clock.now(), AHEAD_MS))
      const { taken, at } = await this.#take(key, rate, maxWaitMs, missed)
      if (!taken && at > latest) return at
      const lateMs = await until(taken ? at : at - AHEAD_MS)
      if (taken && !this.#isTooLate(lateMs, missed++)) return null
    }
  }

  /** A request that is late every time is sent at last: a process this slow cannot send a burst. */
  #isTooLate(lateMs: number, missed: number): boolean {
    return lateMs > this.#parts.guardMs / 2 && missed < MAX_MISSED
  }

  /** A request has failed. If the provider asked for a pause, all processes observe it from now on. */
  async observePause(provider: string, fault: Fault): Promise<void> {
    const { journal, clock } = this.#parts
    if (!isRateLimited(fault) && fault.retry_after_seconds === undefined) return
    const asked = fault.retry_after_seconds ?? 0
    const until = clock.now() + Math.min(Math.max(asked, MIN_PAUSE_SECONDS), MAX_PAUSE_SECONDS) * 1000
    this.#pauseUntil(provider, until)
    await journal.providers.slowDown({ provider, until })
  }

  #checkPause(provider: string): Promise<void> {
    const { clock, journal } = this.#parts
    const now = clock.now()
    const known = this.#pauseChecks.get(provider)
    if (known !== undefined && now - known.at < AHEAD_MS) return known.done
    const done = journal.providers.restUntil({ provider }).then(until => this.#pauseUntil(provider, until))
    this.#pauseChecks.set(provider, { at: now, done })
    done.catch(() => this.#pauseChecks.delete(provider))
    return done
  }

  #pauseUntil(provider: string, until: number): void {
    this.#pausedUntil.set(provider, Math.max(until, this.#pausedUntil.get(provider) ?? 0))
  }

  /** No request of the owner that waits now is sent before this time: there is no place, or the provider asked for a pause. */
  notBefore(provider: string, owner: string): number | null {
    const next = (key: string) => this.#queues.get(key)?.nextAt ?? 0
    const at = Math.max(next(provider), next(ownKey(provider, owner)), this.#pauseEnd(provider) ?? 0)
    return at > this.#parts.clock.now() ? at : null
  }

  #pauseEnd(provider: string): number | null {
    const until = this.#pausedUntil.get(provider)
    if (until === undefined) return null
    if (until > this.#parts.clock.now()) return until
    this.#pausedUntil.delete(provider)
    return null
  }

  #place(key: string, owner: string, rate: number): Promise<void> {
    const queue = valueIn(this.#queues, key, () => ({
      waiting: new Map(),
      missed: [],
      nextAt: 0,
      isBusy: false,
    }))
    const served = new Promise<void>((resolve, reject) => {
      valueIn(queue.waiting, owner, () => []).push({ resolve, reject, missed: 0 })
    })
    void this.#serve(key, rate, queue)
    return served
  }

  /** Never rejects: an error rejects all waiting requests. */
  async #serve(key: string, rate: number, queue: Queue): Promise<void> {
    if (queue.isBusy) return
    queue.isBusy = true
    const { untilStoreAnswers, until } = this.#parts
    try {
      while (isWaitedFor(queue)) {
        const missed = queue.missed[0]?.missed ?? 0
        const { taken, at } = await untilStoreAnswers(() => this.#take(key, rate, AHEAD_MS, missed))
        queue.nextAt = at
        if (taken) void this.#use(key, rate, queue, at)
        else await until(at - AHEAD_MS)
      }
    } catch (error) {
      while (isWaitedFor(queue)) takeNext(queue).reject(error)
    } finally {
      queue.isBusy = false
    }
  }

  async #use(key: string, rate: number, queue: Queue, at: number): Promise<void> {
    const next = takeNext(queue)
    const lateMs = await this.#parts.until(at)
    if (!this.#isTooLate(lateMs, next.missed)) {
      next.resolve()
      return
    }
    next.missed++
    queue.missed.push(next)
    void this.#serve(key, rate, queue)
  }

  /** After missed places, which also cost time of the store, the next place is requested further ahead. */
  #take(key: string, rate: number, maxWaitMs: number, missed: number) {
    const { journal, clock, guardMs } = this.#parts
    const intervalMs = (1000 + guardMs) / rate
    const at = clock.now() + Math.min(AHEAD_MS, missed * LEAD_MS)
    return journal.providers.takeRate({ provider: key, intervalMs, at, maxWaitMs })
  }
}

/** A provider's name never contains "/". */
function ownKey(provider: string, owner: string): string {
  return `${provider}/${owner}`
}

function isWaitedFor({ waiting, missed }: Queue): boolean {
  return waiting.size + missed.length > 0
}

function takeNext({ waiting, missed }: Queue): Waiting {
  const late = missed.shift()
  if (late !== undefined) return late
  const [owner, own] = waiting.entries().next().value!
  const next = own.shift()!
  waiting.delete(owner)
  if (own.length > 0) waiting.set(owner, own)
  return next
}

const AHEAD_MS = 1000
const LEAD_MS = 50
const MAX_MISSED = 20
/** The shortest pause, also where a provider requests a shorter one: it has just rejected a request. */
const MIN_PAUSE_SECONDS = 1
/** A mistake in one answer must not pause the provider for a year. */
const MAX_PAUSE_SECONDS = 3600
