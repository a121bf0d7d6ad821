import type { Log } from "../../log.ts"
import type { Link } from "./client/link.ts"

interface Letter {
  readonly partition: number
  readonly reports: Set<Report>
  isUnderWay: boolean
  /** It could not be sent, and waits for Redis. */
  isKept: boolean
}

interface Report {
  readonly fields: readonly [string, string]
  readonly letter: Letter
  /** Of all with the same only the newest need arrive. */
  readonly topic: string | undefined
  readonly sent: () => void
}

/**
 * Reports on their way to the owners of their partitions. Those of one turn of the event loop for one partition are one
 * entry. What could not be sent is kept, and sent when Redis is back. Of news only the newest is kept, or those of a long
 * outage would fill the worker: a topic says what the news is about.
 */
export class Outbox {
  readonly #link: Link
  readonly #log: Log
  /** By partition: to be sent at the end of this turn. */
  readonly #open = new Map<number, Letter>()
  readonly #letters = new Set<Letter>()
  /** By topic. */
  readonly #newest = new Map<string, Report>()

  constructor(link: Link, log: Log) {
    this.#link = link
    this.#log = log
  }

  get isEmpty(): boolean {
    return this.#letters.size === 0
  }

  /**
   * Resolves when it has reached Redis; news also when something newer has come. It may arrive twice: who reads it knows
   * tasks by their attempt.
   */
  send(partition: number, fields: Report["fields"], topic?: string): Promise<void> {
    return new Promise(sent => {
      const letter = this.#open.get(partition) ?? this.#begin(partition)
      const report = { fields, letter, topic, sent }
      letter.reports.add(report)
      if (topic !== undefined) this.#replace(topic, report)
      if (letter.reports.size >= MOST_REPORTS) this.#open.delete(partition)
    })
  }

  sendAgain(): void {
    for (const letter of this.#letters)
      if (this.#open.get(letter.partition) !== letter) void this.#post(letter)
  }

  #begin(partition: number): Letter {
    const letter: Letter = { partition, reports: new Set(), isUnderWay: false, isKept: false }
    this.#open.set(partition, letter)
    this.#letters.add(letter)
    setImmediate(() => {
      if (this.#open.get(partition) === letter) this.#open.delete(partition)
      void this.#post(letter)
    })
    return letter
  }

  #replace(topic: string, report: Report): void {
    const older = this.#newest.get(topic)
    this.#newest.set(topic, report)
    if (older?.letter.isKept) this.#drop(older)
  }

  #drop(report: Report): void {
    const { letter, sent } = report
    letter.reports.delete(report)
    if (letter.reports.size === 0) this.#letters.delete(letter)
    sent()
  }

  async #post(letter: Letter): Promise<void> {
    const { keys } = this.#link
    if (letter.isUnderWay || letter.reports.size === 0) return
    if (keys === null) return this.#keep(letter)
    letter.isUnderWay = true
    letter.isKept = false
    const fields = [...letter.reports].flatMap(report => report.fields)
    try {
      await this.#link.send(["XADD", keys.results(letter.partition), "*", ...fields])
      this.#letters.delete(letter)
      for (const report of letter.reports) this.#arrived(report)
    } catch (error) {
      letter.isUnderWay = false
      this.#keep(letter)
      this.#log.debug({ error: String(error) }, "a report did not reach Redis; it is kept")
    }
  }

  #arrived(report: Report): void {
    const { topic, sent } = report
    if (topic !== undefined && this.#newest.get(topic) === report) this.#newest.delete(topic)
    sent()
  }

  /** Away: whoever connects again sends it again. Refused (out of memory, read only): the next beat does. */
  #keep(letter: Letter): void {
    letter.isKept = true
    for (const report of letter.reports)
      if (report.topic !== undefined && this.#newest.get(report.topic) !== report) this.#drop(report)
  }
}

/** In one entry. */
const MOST_REPORTS = 100
