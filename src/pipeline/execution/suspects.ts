/**
 * Messages that were, or may have been, in flight when the process of their execution crashed: one of them
 * may be the cause. Like nodes that lost an attempt, they are announced in the store before they are tried
 * again, so that the next crash is attributed to the right ones. A message that was announced during a crash
 * is tried alone, with no other message in flight, so that in the end the crash is attributed to a single
 * message.
 */

import type { Fault } from "../../core/faults.ts"
import type { PipelineProgress, RouteProgress, Suspicion } from "../../core/pipeline/progress.ts"
import { formatMessageKey } from "../../core/pipeline/settled.ts"
import type { MessageKey } from "../../journal/port/pipelines.ts"
import type { Delivery } from "../commit/delivery.ts"
import type { RunParts } from "./run.ts"

interface SuspectsParts {
  /** Requests a commit that stores the announcements. */
  readonly announce: () => void
  /** The number of messages in flight, of all routes, including those that wait here. */
  readonly inHand: () => number
}

type Begin = (delivery: Delivery) => void

export class Suspects {
  readonly #parts: SuspectsParts
  readonly #losses = new Map<string, number>()
  /** Messages that were parked until this time or earlier are suspects too. */
  #parkedUntil = 0
  /** Announced as being tried. */
  readonly #announced = new Map<string, Suspicion>()
  /** Called once the announcement is durable. */
  #begins: (() => void)[] = []
  /** The messages that must be tried alone, in turn. */
  readonly #queue: { readonly delivery: Delivery; readonly begin: Begin }[] = []
  #alone: string | null = null
  /** The stored announcements are out of date. */
  #isChanged = false

  constructor(parts: SuspectsParts) {
    this.#parts = parts
  }

  add(key: MessageKey, losses: number): void {
    this.#losses.set(formatMessageKey(key), losses)
  }

  addParked(until: number): void {
    this.#parkedUntil = until
  }

  has(delivery: Delivery): boolean {
    if (delivery.dueAt !== null && delivery.dueAt <= this.#parkedUntil) return true
    return this.#losses.size > 0 && this.#losses.has(formatMessageKey(delivery))
  }

  /** No other message may begin. */
  get isAlone(): boolean {
    return this.#alone !== null || this.#queue.length > 0
  }

  /**
   * `begin` is called when the announcement of the message is durable, and no other message can cause a crash
   * at the same time.
   */
  try(delivery: Delivery, begin: Begin): void {
    if ((this.#losses.get(formatMessageKey(delivery)) ?? 0) === 0) this.#record(delivery, begin)
    else {
      this.#queue.push({ delivery, begin })
      this.next()
    }
  }

  /** A message has ended: the next one may be alone now. */
  next(): void {
    if (this.#alone !== null || this.#queue.length === 0 || this.#parts.inHand() > this.#queue.length) return
    const { delivery, begin } = this.#queue.shift()!
    this.#alone = formatMessageKey(delivery)
    this.#record({ ...delivery, isAlone: true }, begin)
  }

  #record(delivery: Delivery, begin: Begin): void {
    const { route, seq, attempts } = delivery
    const losses = this.#losses.get(formatMessageKey(delivery)) ?? 0
    this.#announced.set(formatMessageKey(delivery), {
      route,
      seq,
      losses,
      ...(attempts === 0 ? {} : { attempts }),
    })
    this.#begins.push(() => begin(delivery))
    this.#parts.announce()
  }

  /** The announcements for the commit that is being built, with the callbacks for when it is durable. */
  takeAnnounced(): readonly Suspicion[] {
    this.#isChanged = false
    return [...this.#announced.values()]
  }

  takeBegins(): readonly (() => void)[] {
    const begins = this.#begins
    this.#begins = []
    return begins
  }

  get isWaiting(): boolean {
    return this.#isChanged || this.#begins.length > 0
  }

  /** The message has ended, with any result: the process did not crash. */
  clear(key: MessageKey): void {
    this.#losses.delete(formatMessageKey(key))
    this.#leave(formatMessageKey(key))
  }

  /** The message is not tried now, but later. Others may be tried meanwhile, once that is stored. */
  putOff(key: MessageKey): void {
    if (!this.#leave(formatMessageKey(key))) return
    this.#isChanged = true
    this.#parts.announce()
  }

  #leave(name: string): boolean {
    if (!this.#announced.delete(name)) return false
    if (this.#alone === name) {
      this.#alone = null
      this.next()
    }
    return true
  }
}

type CrashContext = Pick<RunParts, "plan" | "settings" | "adapters" | "lossLimit" | "context">

/**
 * The process had messages in flight: announced ones, or any that it may have begun among the unsettled ones,
 * which are the first of each queue and those that were due for a retry. Returns the messages that are not
 * tried again.
 */
export function suspectAll(
  suspects: Suspects,
  progress: PipelineProgress,
  of: CrashContext,
): readonly Suspicion[] {
  for (const [route, each] of progress.routes.entries())
    for (const seq of firstUnsettled(each, mostBegun(route, of))) suspects.add({ route, seq }, 0)
  suspects.addParked(of.context.now())
  for (const suspect of progress.suspects) suspects.add(suspect, suspect.losses + 1)
  return progress.suspects.filter(({ losses }) => losses + 1 >= of.lossLimit)
}

/** The maximum number of messages of a route that can have been begun without being durable. */
function mostBegun(route: number, { plan, settings, adapters }: CrashContext): number {
  const { concurrency, adapters: own } = plan.routes[route]!
  const gathers = own.some(({ type }) => adapters.get(type)?.gather !== undefined)
  return (
    concurrency + settings.maxUncommitted + settings.commitMessages + (gathers ? settings.maxGathered : 0)
  )
}

function* firstUnsettled({ settled, tail }: RouteProgress, most: number): Generator<number> {
  let seq = settled.nextUnsettled(0)
  for (let left = most; seq <= tail && left > 0; left--) {
    yield seq
    seq = settled.nextUnsettled(seq)
  }
}

export function lostTooOften(times: number): Fault {
  const message = `The process died ${times} times while this message was in flight; it is not tried again.`
  return { code: "E709", message, retryable: false }
}
