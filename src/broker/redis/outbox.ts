import type { Log } from "../../log.ts"
import type { Link } from "./link.ts"

interface Letter {
  readonly partition: number
  readonly fields: string[]
  readonly sent: (() => void)[]
  isUnderWay: boolean
}

/**
 * Reports on their way to the owners of their partitions. Those of one turn of the event loop for one partition are one
 * entry. What could not be sent is kept, and sent when Redis is back.
 */
export class Outbox {
  readonly #link: Link
  readonly #log: Log
  /** By partition: to be sent at the end of this turn. */
  readonly #open = new Map<number, Letter>()
  readonly #letters = new Set<Letter>()

  constructor(link: Link, log: Log) {
    this.#link = link
    this.#log = log
  }

  get isEmpty(): boolean {
    return this.#letters.size === 0
  }

  /** Resolves when it has reached Redis. It may arrive twice: who reads it knows tasks by their attempt. */
  send(partition: number, report: readonly [string, string]): Promise<void> {
    return new Promise(sent => {
      const letter = this.#open.get(partition) ?? this.#begin(partition)
      letter.fields.push(...report)
      letter.sent.push(sent)
      if (letter.sent.length >= MOST_REPORTS) this.#open.delete(partition)
    })
  }

  sendAgain(): void {
    for (const letter of this.#letters)
      if (this.#open.get(letter.partition) !== letter) void this.#post(letter)
  }

  #begin(partition: number): Letter {
    const letter = { partition, fields: [], sent: [], isUnderWay: false }
    this.#open.set(partition, letter)
    this.#letters.add(letter)
    setImmediate(() => {
      if (this.#open.get(partition) === letter) this.#open.delete(partition)
      void this.#post(letter)
    })
    return letter
  }

  async #post(letter: Letter): Promise<void> {
    const { keys } = this.#link
    if (keys === null || letter.isUnderWay) return
    letter.isUnderWay = true
    try {
      await this.#link.send(["XADD", keys.results(letter.partition), "*", ...letter.fields])
      this.#letters.delete(letter)
      for (const sent of letter.sent) sent()
    } catch (error) {
      // Away: whoever connects again sends it again. Refused (out of memory, read only): the next beat does.
      letter.isUnderWay = false
      this.#log.debug({ error: String(error) }, "a report did not reach Redis; it is kept")
    }
  }
}

/** In one entry. */
const MOST_REPORTS = 100
