import type { Log } from "../../log.ts"
import type { Link } from "./client/link.ts"

interface Letter {
  readonly partition: number
  readonly reports: Set<Report>
  isUnderWay: boolean
  /** The report could not be sent, and waits for Redis. */
  isKept: boolean
}

interface Report {
  readonly fields: readonly [string, string]
  readonly letter: Letter
  /** Of all reports with the same topic only the newest needs to arrive. */
  readonly topic: string | undefined
  readonly sent: () => void
}

/**
 * Reports to the owners of their partitions. The reports of one turn of the event loop for one partition are
 * one entry. Reports that could not be sent are kept, and sent when Redis is available again. Of reports with
 * a topic only the newest is kept; otherwise those of a long outage would fill the worker's memory.
 */
export class Outbox {
  readonly #link: Link
  readonly #log: Log
  /** By partition: sent at the end of this turn. */
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
   * Resolves when the report has reached Redis; with a topic, also when a newer one has replaced it. The
   * report may arrive twice: the reader identifies tasks by their attempt.
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
      this.#log.debug({ error: String(error) }, "a report did not reach Redis; it is kept and sent later")
    }
  }

  #arrived(report: Report): void {
    const { topic, sent } = report
    if (topic !== undefined && this.#newest.get(topic) === report) this.#newest.delete(topic)
    sent()
  }

  /**
   * If Redis is unavailable, the report is sent again after reconnecting. If Redis refused it (out of memory,
   * read-only), it is sent again with the next heartbeat.
   */
  #keep(letter: Letter): void {
    letter.isKept = true
    for (const report of letter.reports)
      if (report.topic !== undefined && this.#newest.get(report.topic) !== report) this.#drop(report)
  }
}

/** Per entry. */
const MOST_REPORTS = 100
