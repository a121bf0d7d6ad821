/** `GET /jobs/{id}/logs?follow`: the log of one job as it is stored, until the job has ended. */
import { jobHasEnded } from "../core/states.ts"
import { isoLogLine } from "../jobs/iso-times.ts"
import type { JobLogs, LogFilter, LogPage, LogPageQuery } from "../jobs/logs/logs.ts"
import { nextTurnIfLate } from "../turns.ts"
import { frame, type OfJob, PolledStream } from "./stream.ts"

/** How often the store is read, with few streams: nothing notifies of log lines. */
const POLL_MS = 200
/** Lines are stored behind the facts: this long after the end of the job no more are expected. */
const LATE_MS = 1000
/** Refused webhooks, which few jobs have, are read with new facts, and otherwise so often. */
const WEBHOOKS_MS = 1000
const PAGE = 500
/** Facts are only counted, not read. */
const FACTS = { limit: 500, inlineBytes: 0 }

export interface LogStreamParts extends OfJob {
  readonly logs: JobLogs
  readonly filter: LogFilter
  /** The id of the last line that the client has; null: none. */
  readonly after: string | null
}

/** A page of the log as it is sent: streams that read the same one at the same time share it. */
export interface LogFrames extends Pick<LogPage, "next" | "pending"> {
  readonly lastId: string | undefined
  readonly frames: Buffer
}

export class LogStream extends PolledStream<LogStreamParts> {
  #after: string | undefined
  #endsAt: number | null = null
  /** All facts up to this one have been read. */
  #seenFact = -1
  #webhooksReadAt = 0

  constructor(parts: LogStreamParts) {
    super(parts)
    this.#after = parts.after ?? undefined
  }

  protected override catchUp(): Promise<void> {
    return this.#send()
  }

  /** The next reading sees the change. */
  protected override pass(): void {}

  async #read(): Promise<void> {
    try {
      await this.#send()
    } catch {
      this.drop()
    }
  }

  /** The last fact of the job. What the engine did is folded from all of them, so it is read only if there is a new one. */
  async #lastFact(): Promise<number> {
    const { feed, jobId } = this.parts
    for (let after = this.#seenFact; ; ) {
      const rows = await feed.parts.journal.readFactPage({ jobId, after, ...FACTS })
      after = rows.at(-1)?.seq ?? after
      if (rows.length < FACTS.limit) return after
    }
  }

  /** Sends all lines that are stored. The row is read first: if it has ended, so have the facts. */
  async #send(): Promise<void> {
    const { feed, logs, filter, jobId, owner, sink } = this.parts
    const row = await feed.parts.journal.readJob(jobId)
    const lastFact = await this.#lastFact()
    const hasNoNewFacts = lastFact === this.#seenFact
    const at = performance.now()
    const skipsWebhooks = hasNoNewFacts && at < this.#webhooksReadAt + WEBHOOKS_MS
    if (!skipsWebhooks) this.#webhooksReadAt = at
    let isPending = false
    for (;;) {
      const query = { ...filter, after: this.#after, limit: PAGE, hasNoNewFacts, skipsWebhooks }
      const key = JSON.stringify([jobId, query])
      const page = await feed.logPages.run(key, () => readFrames(logs, jobId, query))
      const { frames, lastId, next, pending = false } = page
      isPending = pending
      if (this.isClosed) return
      if (frames.length > 0) sink.write(frames)
      this.#after = next ?? lastId ?? this.#after
      if (next === null) break
      await sink.flushed()
      if (this.isClosed) return
    }
    if (!isPending) this.#seenFact = lastFact
    if (row === null || row.status === "DELETED") return this.end("job_deleted")
    if (!jobHasEnded(row.status)) this.#endsAt = null
    else {
      this.#endsAt ??= Math.max(performance.now(), 1) + (row.finishedAt === null ? 0 : LATE_MS)
      if (performance.now() >= this.#endsAt && !isPending) return this.end("job_ended")
    }
    this.timer = setTimeout(() => void this.#read(), feed.queryRate.waitMs(owner, POLL_MS))
  }
}

async function readFrames(logs: JobLogs, jobId: string, query: LogPageQuery): Promise<LogFrames> {
  const { lines, ...page } = await logs.page(jobId, query)
  const late = lines.length > 0 ? nextTurnIfLate() : undefined
  if (late !== undefined) await late
  const text = lines.map(line => frame("line", isoLogLine(line), line.id)).join("")
  return { ...page, lastId: lines.at(-1)?.id, frames: Buffer.from(text) }
}
