import type { Log } from "../../log.ts"
import type { Link } from "./link.ts"

interface Letter {
  readonly partition: number
  readonly fields: readonly string[]
  readonly sent: () => void
}

/** Reports on their way to the owners of their partitions. One that could not be sent is kept, and sent when Redis is back. */
export class Outbox {
  readonly #link: Link
  readonly #log: Log
  readonly #letters = new Set<Letter>()

  constructor(link: Link, log: Log) {
    this.#link = link
    this.#log = log
  }

  get isEmpty(): boolean {
    return this.#letters.size === 0
  }

  /** Resolves when it has reached Redis. It may arrive twice: who reads it knows tasks by their attempt. */
  send(partition: number, fields: readonly string[]): Promise<void> {
    return new Promise(sent => {
      const letter = { partition, fields, sent }
      this.#letters.add(letter)
      void this.#post(letter)
    })
  }

  sendAgain(): void {
    for (const letter of [...this.#letters]) void this.#post(letter)
  }

  async #post(letter: Letter): Promise<void> {
    const { keys } = this.#link
    if (keys === null) return
    try {
      await this.#link.send(["XADD", keys.results(letter.partition), "*", ...letter.fields])
      this.#letters.delete(letter)
      letter.sent()
    } catch (error) {
      // Away: whoever connects again sends it again. Refused (out of memory, read only): the next beat does.
      this.#log.debug({ error: String(error) }, "a report did not reach Redis; it is kept")
    }
  }
}
