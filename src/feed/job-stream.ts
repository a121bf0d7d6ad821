/** `GET /jobs/{id}/stream`: one job, its nodes included, until it has ended. */
import { type JobStatus, jobHasEnded } from "../core/states.ts"
import type { FactRow } from "../journal/port/journal.ts"
import { type Change, expandChanges } from "./changes.ts"
import type { Feed, Following } from "./feed.ts"
import { jobFrames } from "./frames.ts"
import { INLINE_BYTES, type KnownJob, newKnownJob, readFact } from "./known-jobs.ts"
import type { JobPosition } from "./position.ts"
import { type Sink, Stream } from "./stream.ts"
import type { JobChanges } from "./watches.ts"

export interface JobStreamParts {
  readonly feed: Feed
  readonly owner: string
  readonly jobId: string
  /** The position that the client sent. */
  readonly after: JobPosition | null
  readonly sink: Sink
}

export class JobStream extends Stream<JobChanges> {
  readonly #parts: JobStreamParts
  /** Facts up to here have been delivered. */
  #floor = 0

  constructor(parts: JobStreamParts) {
    super(parts.sink)
    this.#parts = parts
  }

  begin(): Promise<void> {
    const { feed, owner, jobId } = this.#parts
    return this.open(() => feed.followJob(owner, jobId, this))
  }

  protected override async catchUp(_following: Following): Promise<void> {
    const { after } = this.#parts
    const status = after === null ? await this.#snapshot() : await this.#resume(after)
    if (status !== null && jobHasEnded(status)) this.#endAs(status)
  }

  protected override pass(batch: JobChanges): void {
    const fresh = batch.changes.filter(({ seq }) => seq > this.#floor)
    if (fresh.length === 0) return
    const last = fresh.findIndex(({ status }) => status !== null && jobHasEnded(status))
    const delivered = last === -1 ? fresh : fresh.slice(0, last + 1)
    this.sink.write(
      delivered.length === batch.changes.length ? batch.bytes : Buffer.from(jobFrames(delivered)),
    )
    this.#floor = delivered.at(-1)!.seq
    if (last !== -1) this.#endAs(fresh[last]!.status!)
  }

  #endAs(status: JobStatus): void {
    this.end(status === "DELETED" ? "job_deleted" : "job_ended")
  }

  /** null: the job does not exist any more. */
  async #snapshot(): Promise<JobStatus | null> {
    const { feed, jobId } = this.#parts
    const found = await feed.snapshots.job(jobId)
    if (found === null) {
      this.end("job_deleted")
      return null
    }
    this.sink.write(found.bytes)
    this.#floor = found.seq
    return found.status
  }

  async #resume({ seq, place }: JobPosition): Promise<JobStatus | null> {
    const { feed, jobId } = this.#parts
    const rows = await feed.parts.journal.readFacts([jobId], { inlineBytes: INLINE_BYTES })
    const missed = rows.filter(row => row.seq > seq).length
    if (!rows.some(row => row.seq === seq)) this.reset("unknown_position")
    else if (missed > feed.parts.settings.catchUpFacts) this.reset("too_far_behind")
    else {
      const { job, changes } = await replay(feed, rows, seq)
      const fresh = changes.filter(change => change.seq > seq || change.place > place)
      if (fresh.length > 0) this.sink.write(Buffer.from(jobFrames(fresh)))
      this.#floor = rows.at(-1)!.seq
      return job?.state.status ?? null
    }
    return this.#snapshot()
  }
}

/** The job, and its changes from this fact on. */
async function replay(
  feed: Feed,
  rows: readonly FactRow[],
  from: number,
): Promise<{ job: KnownJob | null; changes: Change[] }> {
  let job: KnownJob | null = null
  const changes: Change[] = []
  for (const row of rows) {
    const fact = await readFact(feed.parts.journal, row)
    if (fact === null) break
    job ??= await newKnownJob(feed.parts, row.jobId, fact)
    if (job === null) break
    const found = expandChanges(job, { seq: row.seq, fact }, { withNodes: true })
    if (row.seq >= from) changes.push(...found)
  }
  return { job, changes }
}
