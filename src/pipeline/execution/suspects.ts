/**
 * Messages that were, or may have been, in hand when the process of their execution died: one of them may be what ends
 * it. Like nodes that lost an attempt, they are announced before they are tried again, so that the next death is blamed
 * on the right ones; and who was announced in one is tried alone, with nothing else in hand, so that in the end it is
 * blamed on one.
 */
import type { Suspicion } from "../../core/pipeline/progress.ts"
import type { MessageKey } from "../../journal/port/pipelines.ts"
import type { Delivery } from "../commit/delivery.ts"

const nameOf = ({ route, seq }: MessageKey) => `${route}:${seq}`

export interface SuspectsParts {
  /** What is announced is to be written down. */
  readonly announce: () => void
  /** Messages in hand, of all routes; those that wait here included. */
  readonly inHand: () => number
}

type Begin = (delivery: Delivery) => void

export class Suspects {
  readonly #parts: SuspectsParts
  readonly #losses = new Map<string, number>()
  /** Messages that waited for another try until then at most are suspects too. */
  #parkedUntil = 0
  /** On record as being tried. */
  readonly #announced = new Map<string, Suspicion>()
  /** What begins once its announcement is durable. */
  #begins: (() => void)[] = []
  /** Those that must be tried alone, in turn. */
  readonly #queue: { readonly delivery: Delivery; readonly begin: Begin }[] = []
  #alone: string | null = null
  /** The record is not what it should be. */
  #isChanged = false

  constructor(parts: SuspectsParts) {
    this.#parts = parts
  }

  add(key: MessageKey, losses: number): void {
    this.#losses.set(nameOf(key), losses)
  }

  addParked(until: number): void {
    this.#parkedUntil = until
  }

  has(delivery: Delivery): boolean {
    if (delivery.dueAt !== null && delivery.dueAt <= this.#parkedUntil) return true
    return this.#losses.size > 0 && this.#losses.has(nameOf(delivery))
  }

  /** Nothing else may be begun. */
  get isAlone(): boolean {
    return this.#alone !== null || this.#queue.length > 0
  }

  /** `begin` is called when it is on record that the message is tried, and nothing else can be blamed for what it does. */
  try(delivery: Delivery, begin: Begin): void {
    if ((this.#losses.get(nameOf(delivery)) ?? 0) === 0) this.#record(delivery, begin)
    else {
      this.#queue.push({ delivery, begin })
      this.next()
    }
  }

  /** Something has ended: the next may be alone now. */
  next(): void {
    if (this.#alone !== null || this.#queue.length === 0 || this.#parts.inHand() > this.#queue.length) return
    const { delivery, begin } = this.#queue.shift()!
    this.#alone = nameOf(delivery)
    this.#record({ ...delivery, isAlone: true }, begin)
  }

  #record(delivery: Delivery, begin: Begin): void {
    const { route, seq, attempts } = delivery
    const losses = this.#losses.get(nameOf(delivery)) ?? 0
    this.#announced.set(nameOf(delivery), { route, seq, losses, ...(attempts === 0 ? {} : { attempts }) })
    this.#begins.push(() => begin(delivery))
    this.#parts.announce()
  }

  /** For the record, in the commit that is being made. What is called when it is durable comes with it. */
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

  /** It has come to an end, whatever it is: the process lives. */
  clear(key: MessageKey): void {
    this.#losses.delete(nameOf(key))
    this.#leave(nameOf(key))
  }

  /** It is not tried now, and will be later. Others may be meanwhile, once that is on record. */
  putOff(key: MessageKey): void {
    if (!this.#leave(nameOf(key))) return
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
