/**
 * Common part of both kinds of streams: until a new stream has caught up, changes that arrive meanwhile are held back.
 * Bounded: a stream that stays behind is dropped.
 */

import { type JobStatus, jobHasEnded } from "../core/states.ts"
import { type FeedFact, type FeedRange, inFeedOrder } from "../journal/port/feed.ts"
import type { FactRow } from "../journal/port/journal.ts"
import { nextTurnIfLate } from "../turns.ts"
import { type Change, expandChanges, expandFacts } from "./changes.ts"
import type { Feed, Following } from "./feed.ts"
import type { JobChanges, OwnerChanges } from "./followers.ts"
import { INLINE_BYTES, type KnownJob, KnownJobs, newKnownJob, readFact } from "./known-jobs.ts"
import { type JobPosition, jobPositionText, type Position, positionText } from "./position.ts"

/** The destination of a stream's text. */
export interface Sink {
  write(bytes: Buffer): void
  /** Writes the bytes, or leaves them out if there is no room. */
  writeIfRoom(bytes: Buffer): void
  /** Resolves when everything was sent, or cannot be sent any more. */
  flushed(): Promise<void>
  /** Writes the last bytes. */
  end(bytes: Buffer): void
  /** The stream cannot continue: the client reconnects with the last id it has seen. */
  drop(): void
}

/** A stream with more held changes than this while it catches up never will. */
const MAX_HELD = 10_000

export abstract class Stream<Batch extends { readonly changes: readonly unknown[] }> {
  protected readonly sink: Sink
  #held: Batch[] | null = []
  #heldChanges = 0
  #following: Following | null = null
  #isClosed = false

  constructor(sink: Sink) {
    this.sink = sink
  }

  /** Sends the current state, then continues with changes. */
  async open(follow: () => Promise<Following>): Promise<void> {
    this.#following = await follow()
    if (this.#isClosed) return this.#following.leave()
    try {
      await this.catchUp(this.#following)
      for (const batch of this.#held ?? []) if (!this.#isClosed) this.pass(batch)
      this.#held = null
    } catch (error) {
      this.close()
      throw error
    }
  }

  changed(batch: Batch): void {
    if (this.#isClosed) return
    if (this.#held === null) this.pass(batch)
    else this.#hold(this.#held, batch)
  }

  #hold(held: Batch[], batch: Batch): void {
    held.push(batch)
    this.#heldChanges += batch.changes.length
    if (this.#heldChanges <= MAX_HELD) return
    this.close()
    this.sink.drop()
  }

  progressed(bytes: Buffer): void {
    if (!this.#isClosed && this.#held === null) this.sink.writeIfRoom(bytes)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#held = null
    this.#following?.leave()
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Sends everything before the position at which the changes begin. */
  protected abstract catchUp(following: Following): Promise<void>
  protected abstract pass(batch: Batch): void

  protected reset(reason: ResetReason): void {
    this.sink.write(Buffer.from(frame("reset", { reason })))
  }

  protected end(reason: EndReason): void {
    this.close()
    this.sink.end(endFrame(reason))
  }
}

export function endFrame(reason: EndReason): Buffer {
  return Buffer.from(frame("end", { reason }))
}

export interface OfJob {
  readonly feed: Feed
  readonly owner: string
  readonly jobId: string
  readonly sink: Sink
}

/** A stream that reads the store when something has changed or some time has passed, and counts as a query of the owner. */
export abstract class PolledStream<Parts extends OfJob> extends Stream<JobChanges> {
  protected readonly parts: Parts
  protected timer: NodeJS.Timeout | null = null
  #leave: () => void = () => {}

  constructor(parts: Parts) {
    super(parts.sink)
    this.parts = parts
  }

  begin(): Promise<void> {
    const { feed, owner, jobId } = this.parts
    this.#leave = feed.queryRate.enter(owner)
    return this.open(() => feed.followJob(owner, jobId, this))
  }

  /** Progress is read from the store too. */
  override progressed(): void {}

  override close(): void {
    clearTimeout(this.timer ?? undefined)
    this.#leave()
    super.close()
  }

  /** The store does not answer: the client reconnects with the last id that it has. */
  protected drop(): void {
    this.close()
    this.sink.drop()
  }
}

/** `GET /jobs/{id}/stream`: one job, its nodes included, until it has ended. */
interface JobStreamParts extends OfJob {
  /** The position that the client sent. */
  readonly after: JobPosition | null
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
    await nextTurnIfLate()
    const fact = await readFact(feed.parts.journal, row)
    if (fact === null) break
    job ??= await newKnownJob(feed.parts, row.jobId, fact)
    if (job === null) break
    const found = expandChanges(job, { seq: row.seq, fact }, { withNodes: true })
    if (row.seq >= from) changes.push(...found)
  }
  return { job, changes }
}

/** `GET /jobs/stream`: all jobs of an owner. */
interface OwnerStreamParts {
  readonly feed: Feed
  readonly owner: string
  /** The position that the client sent; `unknown`: a position that is not valid here. */
  readonly after: Position | "unknown" | null
  readonly sink: Sink
}

/** Facts almost as old as the retention time may be incomplete. */
const SHARE_OF_RETENTION = 0.9
/** Facts of one partition in a page. */
const PAGE = 1000

export class OwnerStream extends Stream<OwnerChanges> {
  readonly #parts: OwnerStreamParts
  #store = ""
  /** The client has everything up to here, which may be ahead of this process; null: it is not ahead. */
  #floor: readonly number[] | null = null

  constructor(parts: OwnerStreamParts) {
    super(parts.sink)
    this.#parts = parts
  }

  begin(): Promise<void> {
    const { feed, owner } = this.#parts
    return this.open(() => feed.followOwner(owner, this))
  }

  protected override async catchUp({ store, seqs }: Following): Promise<void> {
    const { after } = this.#parts
    this.#store = store
    if (after === null) return this.#snapshot()
    if (after === "unknown" || after.store !== store || after.seqs.length !== seqs.length)
      this.reset("unknown_position")
    else {
      const upTo = await this.#upTo(after, seqs)
      const missed = this.#isTooOld(after) ? null : await this.#missed(after, upTo)
      if (missed !== null) {
        if (missed.length > 0) this.sink.write(Buffer.from(ownerFrames(store, missed)))
        this.#floor = furthest(after.seqs, upTo)
        return
      }
      this.reset("too_far_behind")
    }
    return this.#snapshot()
  }

  protected override pass(batch: OwnerChanges): void {
    const floor = this.#floor
    if (floor === null) {
      this.sink.write(batch.bytes)
      return
    }
    const fresh = batch.changes
      .filter(({ partition, seq }) => seq > floor[partition]!)
      // The client has changes that this process has not delivered yet: its next position must include them.
      .map(change => ({ ...change, seqs: furthest(change.seqs, floor) }))
    if (fresh.length > 0) this.sink.write(Buffer.from(ownerFrames(this.#store, fresh)))
    if (batch.seqs.every((seq, partition) => seq >= floor[partition]!)) this.#floor = null
  }

  /** Jobs that ended after this position may have been removed since. */
  #isTooOld({ at }: Position): boolean {
    const { retentionSeconds, now } = this.#parts.feed.parts
    return retentionSeconds !== null && at < now() - SHARE_OF_RETENTION * 1000 * retentionSeconds
  }

  /** The target of the catch-up: if another process delivered more to the client, the current end of the store. */
  async #upTo(after: Position, seqs: readonly number[]): Promise<readonly number[]> {
    const isAhead = after.seqs.some((seq, partition) => seq > seqs[partition]!)
    return isAhead ? (await this.#parts.feed.parts.journal.feed.position()).seqs : seqs
  }

  async #snapshot(): Promise<void> {
    const { feed, owner } = this.#parts
    const { bytes, seqs } = await feed.snapshots.owner(owner, this.#store)
    this.sink.write(bytes)
    this.#floor = seqs
  }

  /** The changes between the client's position and this process's; null: too many. */
  async #missed(after: Position, upTo: readonly number[]): Promise<OwnerChange[] | null> {
    const { feed, owner } = this.#parts
    const facts = await factsBetween(feed, owner, after, upTo)
    if (facts === null) return null
    // With its own states: those of the feed are of another position.
    const expanded = await expandFacts(feed.parts, facts, { known: new KnownJobs(0), withNodes: () => false })
    const seqs = [...after.seqs]
    const missed: OwnerChange[] = []
    for (const { row, changes } of expanded) {
      seqs[row.partition] = row.seq
      for (const change of changes)
        if (!(isPartlyDelivered(after, row) && change.place <= after.place))
          missed.push({ ...change, partition: row.partition, seqs: [...seqs] })
    }
    return missed
  }
}

/** Includes the rest of a fact that was delivered in part. null: too many. */
async function factsBetween(
  { parts: { journal, settings } }: Feed,
  owner: string,
  after: Position,
  upTo: readonly number[],
): Promise<FeedFact[] | null> {
  let ranges: FeedRange[] = upTo
    .map((seq, partition) => ({ partition, after: rangeStart(after, partition), upTo: seq }))
    .filter(range => range.upTo > range.after)
  const facts: FeedFact[] = []
  let scanned = 0
  while (ranges.length > 0) {
    const page = await journal.feed.read({ ranges, owners: [owner], limit: PAGE, inlineBytes: INLINE_BYTES })
    facts.push(...page.facts)
    for (const reach of page.reached) scanned += reach.looked
    if (facts.length > settings.catchUpFacts || scanned > settings.catchUpScanned) return null
    ranges = page.reached
      .filter(({ isMore }) => isMore)
      .map(({ partition, seq }) => ({ partition, after: seq, upTo: upTo[partition]! }))
  }
  // First the rest of a fact that was delivered in part: no other position could express that it is still missing.
  const isFirst = (fact: FeedFact) => Number(isPartlyDelivered(after, fact))
  return facts.sort((a, b) => isFirst(b) - isFirst(a) || inFeedOrder(a, b))
}

function rangeStart({ seqs, partition: partlyDelivered }: Position, partition: number): number {
  return partlyDelivered === partition ? seqs[partition]! - 1 : seqs[partition]!
}

function isPartlyDelivered(after: Position, { partition, seq }: FeedFact): boolean {
  return partition === after.partition && seq === after.seqs[partition]
}

function furthest(a: readonly number[], b: readonly number[]): number[] {
  return a.map((seq, partition) => Math.max(seq, b[partition]!))
}

/** The format of events (Server-Sent Events): `event`, `id` and one line of `data` each. */
type EndReason = "job_ended" | "job_deleted" | "server_stopping"
type ResetReason = "too_far_behind" | "unknown_position"

export function frame(event: string, data: unknown, id?: string): string {
  return text(event, JSON.stringify(data), id)
}

function text(event: string, data: string, id?: string): string {
  return `event: ${event}\n${id === undefined ? "" : `id: ${id}\n`}data: ${data}\n\n`
}

export function jobFrames(changes: readonly Change[]): string {
  return changes.map(change => text(change.kind, change.data, jobPositionText(change))).join("")
}

/** A change of one of an owner's jobs, and the position after it. */
export interface OwnerChange extends Change {
  readonly partition: number
  readonly seqs: readonly number[]
}

export function ownerFrames(store: string, changes: readonly OwnerChange[]): string {
  return changes.map(change => text("job", change.data, positionText({ store, ...change }))).join("")
}
