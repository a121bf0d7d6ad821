/** `GET /jobs/{id}/facts?follow`: the facts of one job as they become durable, until it has ended. */
import { jobHasEnded } from "../core/states.ts"
import type { LiveGraph } from "../core/view/live-view.ts"
import type { JobFacts } from "../jobs/facts.ts"
import { nextTurnIfLate } from "../turns.ts"
import { frame, type OfJob, PolledStream } from "./stream.ts"

/** Facts that are committed within this time are sent together. */
const COALESCE_MS = 100
/** How often the live overlay is queried, with few streams; it is sent if it has changed. */
const LIVE_MS = 1000
const PAGE = 500

export interface FactStreamParts extends OfJob {
  readonly facts: JobFacts
  /** The seq of the last fact that the client has; null: none. */
  readonly after: number | null
  /** The live overlay; null: not known. */
  live(): Promise<LiveGraph | null | undefined>
}

export class FactStream extends PolledStream<FactStreamParts> {
  #after: number
  /** The index of the fact `#after`. */
  #index: number | undefined
  #liveTimer: NodeJS.Timeout | null = null
  #isReading = false
  #isStale = false
  #sentLive = ""

  constructor(parts: FactStreamParts) {
    super(parts)
    this.#after = parts.after ?? -1
    this.#index = parts.after === null ? 0 : undefined
  }

  protected override async catchUp(): Promise<void> {
    await this.#send()
    if (!this.isClosed) await this.#sendLive()
  }

  protected override pass(): void {
    this.timer ??= setTimeout(() => void this.#read(), COALESCE_MS)
  }

  override close(): void {
    clearTimeout(this.#liveTimer ?? undefined)
    super.close()
  }

  async #read(): Promise<void> {
    this.timer = null
    this.#isStale = true
    if (this.#isReading) return
    this.#isReading = true
    try {
      while (this.#isStale && !this.isClosed) {
        this.#isStale = false
        await this.#send()
      }
    } catch {
      this.drop()
    } finally {
      this.#isReading = false
    }
  }

  /** Sends all facts that are durable. The row is read first: if it has ended, so have the facts. */
  async #send(): Promise<void> {
    const { feed, facts, jobId, sink } = this.parts
    const row = await feed.parts.journal.readJob(jobId)
    for (;;) {
      const page = await facts.page(jobId, { after: this.#after, index: this.#index, limit: PAGE })
      // Many streams may have read their pages at the same time.
      const late = nextTurnIfLate()
      if (late !== undefined) await late
      if (this.isClosed) return
      const last = page.facts.at(-1)
      if (last !== undefined) {
        sink.write(Buffer.from(page.facts.map(fact => frame("fact", fact, String(fact.seq))).join("")))
        this.#after = last.seq
        this.#index = last.index
      }
      if (page.next === null) break
      await sink.flushed()
      if (this.isClosed) return
    }
    if (row === null || row.status === "DELETED") this.end("job_deleted")
    else if (jobHasEnded(row.status)) this.end("job_ended")
  }

  async #sendLive(): Promise<void> {
    const { feed, owner } = this.parts
    const live = await this.parts.live().catch(() => null)
    if (this.isClosed) return
    this.#liveTimer = setTimeout(() => void this.#sendLive(), feed.queryRate.waitMs(owner, LIVE_MS))
    if (live === undefined || live === null) return
    const shown = JSON.stringify(live.nodes)
    if (shown === this.#sentLive) return
    this.#sentLive = shown
    this.sink.writeIfRoom(Buffer.from(frame("live", live)))
  }
}
