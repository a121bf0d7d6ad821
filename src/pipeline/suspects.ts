/**
 * Messages that were, or may have been, in hand when the process of their execution died: one of them may be what ends
 * it. Like nodes that lost an attempt, they are announced before they are tried again, so that the next death is blamed
 * on the right ones; and who was announced in one is tried alone, so that in the end it is blamed on one.
 */
import type { Suspicion } from "../core/pipeline/progress.ts"
import type { MessageKey } from "../journal/pipeline-store.ts"

const nameOf = ({ route, seq }: MessageKey) => `${route}:${seq}`

export class Suspects {
  readonly #losses = new Map<string, number>()
  /** On record as being tried. */
  readonly #announced = new Map<string, Suspicion>()
  /** What begins once its announcement is durable. */
  #begins: (() => void)[] = []
  /** Those that must be tried alone, in turn. */
  readonly #queue: { readonly key: MessageKey; readonly begin: () => void }[] = []
  #alone: string | null = null
  readonly #announce: () => void

  /** `announce`: what is announced is to be written down. */
  constructor(announce: () => void) {
    this.#announce = announce
  }

  add(key: MessageKey, losses: number): void {
    this.#losses.set(nameOf(key), losses)
  }

  has(key: MessageKey): boolean {
    return this.#losses.size > 0 && this.#losses.has(nameOf(key))
  }

  /** `begin` is called when it is on record that the message is tried, and nothing else can be blamed for what it does. */
  try(key: MessageKey, begin: () => void): void {
    if (this.#losses.get(nameOf(key)) === 0) this.#record(key, begin)
    else {
      this.#queue.push({ key, begin })
      this.#next()
    }
  }

  #next(): void {
    if (this.#alone !== null) return
    const next = this.#queue.shift()
    if (next === undefined) return
    this.#alone = nameOf(next.key)
    this.#record(next.key, next.begin)
  }

  #record(key: MessageKey, begin: () => void): void {
    const losses = this.#losses.get(nameOf(key)) ?? 0
    this.#announced.set(nameOf(key), { route: key.route, seq: key.seq, losses })
    this.#begins.push(begin)
    this.#announce()
  }

  /** For the record, in the commit that is being made. What is called when it is durable comes with it. */
  get announced(): readonly Suspicion[] {
    return [...this.#announced.values()]
  }

  takeBegins(): readonly (() => void)[] {
    const begins = this.#begins
    this.#begins = []
    return begins
  }

  get isWaiting(): boolean {
    return this.#begins.length > 0
  }

  /** It has come to an end, whatever it is: the process lives. */
  clear(key: MessageKey): void {
    if (this.#losses.delete(nameOf(key))) this.putOff(key)
  }

  /** It is not tried now, and will be later. */
  putOff(key: MessageKey): void {
    const name = nameOf(key)
    this.#announced.delete(name)
    if (this.#alone !== name) return
    this.#alone = null
    this.#next()
  }
}
