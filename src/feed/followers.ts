import type { Change } from "./changes.ts"
import { jobFrames, type OwnerChange, ownerFrames } from "./stream.ts"

/** Changes of an owner's jobs: the same for all followers at the same position, and encoded once. */
export class OwnerChanges {
  readonly changes: readonly OwnerChange[]
  /** The position after these changes. */
  readonly seqs: readonly number[]
  readonly #store: string
  #bytes: Buffer | null = null

  constructor(store: string, changes: readonly OwnerChange[], seqs: readonly number[]) {
    this.#store = store
    this.changes = changes
    this.seqs = seqs
  }

  get bytes(): Buffer {
    this.#bytes ??= Buffer.from(ownerFrames(this.#store, this.changes))
    return this.#bytes
  }
}

/** Changes of one job, its nodes included. */
export class JobChanges {
  readonly changes: readonly Change[]
  #bytes: Buffer | null = null

  constructor(changes: readonly Change[]) {
    this.changes = changes
  }

  get bytes(): Buffer {
    this.#bytes ??= Buffer.from(jobFrames(this.changes))
    return this.#bytes
  }
}

export interface Follower<Batch> {
  changed(batch: Batch): void
  progressed(frames: Buffer): void
}

/** The followers of one owner's jobs. */
export class OwnerFollowers {
  readonly all = new Set<Follower<OwnerChanges>>()
  readonly byJob = new Map<string, Set<Follower<JobChanges>>>()

  wants(jobId: string): boolean {
    return this.all.size > 0 || this.byJob.has(jobId)
  }

  get isEmpty(): boolean {
    return this.all.size === 0 && this.byJob.size === 0
  }

  addJob(jobId: string, follower: Follower<JobChanges>): void {
    const followers = this.byJob.get(jobId) ?? new Set()
    this.byJob.set(jobId, followers.add(follower))
  }

  removeJob(jobId: string, follower: Follower<JobChanges>): void {
    const followers = this.byJob.get(jobId)
    followers?.delete(follower)
    if (followers?.size === 0) this.byJob.delete(jobId)
  }

  /** All progress in one write: a sink leaves progress out while it has something to send, which may be progress. */
  deliverProgress(framesByJob: ReadonlyMap<string, readonly string[]>): void {
    if (this.all.size > 0) {
      const bytes = bounded([...framesByJob.values()].flat())
      for (const follower of this.all) follower.progressed(bytes)
    }
    for (const [jobId, frames] of framesByJob) {
      const followers = this.byJob.get(jobId)
      if (followers === undefined) continue
      const bytes = bounded(frames)
      for (const follower of followers) follower.progressed(bytes)
    }
  }
}

/** Progress may be left out; a client that is a little late must not be dropped because of it (`stream_buffer_bytes`). */
const MAX_PROGRESS_BYTES = 64 * 1024

function bounded(frames: readonly string[]): Buffer {
  let bytes = 0
  const over = frames.findIndex(text => {
    bytes += Buffer.byteLength(text)
    return bytes > MAX_PROGRESS_BYTES
  })
  return Buffer.from((over < 0 ? frames : frames.slice(0, over)).join(""))
}
