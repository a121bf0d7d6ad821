import type { Log } from "../../log.ts"
import { InterruptibleWait } from "../interruptible-wait.ts"
import type { Link } from "./client/link.ts"
import type { Report } from "./wire.ts"

interface ReportBatch {
  readonly partition: number
  readonly reports: Set<PendingReport>
  isUnderWay: boolean
  /** The report could not be sent, and waits for Redis. */
  isKept: boolean
}

interface PendingReport {
  readonly fields: readonly [string, string]
  readonly batch: ReportBatch
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
  readonly #open = new Map<number, ReportBatch>()
  readonly #batches = new Set<ReportBatch>()
  /** By topic. */
  readonly #newest = new Map<string, PendingReport>()
  readonly #emptied = new InterruptibleWait()

  constructor(link: Link, log: Log) {
    this.#link = link
    this.#log = log
  }

  /** Resolves when all reports have reached Redis, or after this time. */
  async whenEmpty(ms: number): Promise<void> {
    if (this.#batches.size > 0) await this.#emptied.wait(ms)
  }

  /**
   * Resolves when the report has reached Redis; with a topic, also when a newer one has replaced it. The
   * report may arrive twice: the reader identifies tasks by their attempt.
   */
  send(partition: number, fields: PendingReport["fields"], topic?: string): Promise<void> {
    return new Promise(sent => {
      const batch = this.#open.get(partition) ?? this.#begin(partition)
      const report = { fields, batch: batch, topic, sent }
      batch.reports.add(report)
      if (topic !== undefined) this.#replace(topic, report)
      if (batch.reports.size >= MOST_REPORTS) this.#open.delete(partition)
    })
  }

  sendAgain(): void {
    for (const batch of this.#batches)
      if (this.#open.get(batch.partition) !== batch) void this.#sendBatch(batch)
  }

  #begin(partition: number): ReportBatch {
    const batch: ReportBatch = { partition, reports: new Set(), isUnderWay: false, isKept: false }
    this.#open.set(partition, batch)
    this.#batches.add(batch)
    setImmediate(() => {
      if (this.#open.get(partition) === batch) this.#open.delete(partition)
      void this.#sendBatch(batch)
    })
    return batch
  }

  #replace(topic: string, report: PendingReport): void {
    const older = this.#newest.get(topic)
    this.#newest.set(topic, report)
    if (older?.batch.isKept) this.#drop(older)
  }

  #drop(report: PendingReport): void {
    const { batch, sent } = report
    batch.reports.delete(report)
    if (batch.reports.size === 0) this.#end(batch)
    sent()
  }

  #end(batch: ReportBatch): void {
    this.#batches.delete(batch)
    if (this.#batches.size === 0) this.#emptied.end()
  }

  async #sendBatch(batch: ReportBatch): Promise<void> {
    const { keys } = this.#link
    if (batch.isUnderWay || batch.reports.size === 0) return
    if (keys === null) return this.#keep(batch)
    batch.isUnderWay = true
    batch.isKept = false
    const fields = [...batch.reports].flatMap(report => report.fields)
    try {
      await this.#link.send(["XADD", keys.results(batch.partition), "*", ...fields])
      for (const report of batch.reports) this.#arrived(report)
      this.#end(batch)
    } catch (error) {
      batch.isUnderWay = false
      this.#keep(batch)
      this.#log.debug({ error: String(error) }, "a report did not reach Redis; it is kept and sent later")
    }
  }

  #arrived(report: PendingReport): void {
    const { topic, sent } = report
    if (topic !== undefined && this.#newest.get(topic) === report) this.#newest.delete(topic)
    sent()
  }

  /**
   * If Redis is unavailable, the report is sent again after reconnecting. If Redis refused it (out of memory,
   * read-only), it is sent again with the next heartbeat.
   */
  #keep(batch: ReportBatch): void {
    batch.isKept = true
    for (const report of batch.reports)
      if (report.topic !== undefined && this.#newest.get(report.topic) !== report) this.#drop(report)
  }
}

/** Per entry. */
const MOST_REPORTS = 100

type Finished = Extract<Report, { kind: "finished" }>

/**
 * The outcomes of tasks that a worker has finished, for a task that arrives again. A duplicate arrives within
 * the time in which an engine detects that Redis lost the task; later it would be run once more. The limits
 * bound memory and need no tuning.
 */
export class Remembered {
  /** Newest last. */
  readonly #byName = new Map<string, Finished>()

  get(name: string): Finished | undefined {
    return this.#byName.get(name)
  }

  add(name: string, report: Finished): void {
    const { outcome } = report
    if (outcome.type === "completed" && outcome.text.length > LONGEST) return
    this.#byName.set(name, report)
    if (this.#byName.size > MOST) this.#byName.delete(this.#byName.keys().next().value!)
  }
}

const MOST = 1000
const LONGEST = 64 * 1024
