/** The first event of a stream. Many streams may begin at once: concurrent requests for the same snapshot share one. */
import { shownAttempt } from "../core/attempt-times.ts"
import { nodeStatusOf } from "../core/state.ts"
import type { JobStatus } from "../core/states.ts"
import { partitionOf } from "../engine/ids.ts"
import { previewsField } from "../engine/owner/snapshot.ts"
import { SingleFlight } from "../engine/single-flight.ts"
import { currentJobLine, shownPreview } from "./changes.ts"
import { frame } from "./frames.ts"
import { type FoldParts, foldJobs } from "./known-jobs.ts"
import { jobPositionText, positionText } from "./position.ts"

/** The maximum number of jobs, and of nodes, in a snapshot: a larger graph is requested separately. */
const MAX_JOBS = 100
const MAX_NODES = 1000
/** Sorts after every change of its fact. */
const WHOLE_FACT = 999_999_999

export interface OwnerSnapshot {
  readonly bytes: Buffer
  readonly seqs: readonly number[]
}

export interface JobSnapshot {
  readonly bytes: Buffer
  readonly seq: number
  readonly status: JobStatus
}

export interface SnapshotParts extends FoldParts {
  now(): number
}

export class Snapshots {
  readonly #parts: SnapshotParts
  readonly #ofOwners = new SingleFlight<OwnerSnapshot>()
  readonly #ofJobs = new SingleFlight<JobSnapshot | null>()

  constructor(parts: SnapshotParts) {
    this.#parts = parts
  }

  /** The newest of the owner's jobs that have not ended. */
  owner(owner: string, store: string): Promise<OwnerSnapshot> {
    return this.#ofOwners.run(owner, async () => {
      const at = this.#parts.now()
      const { seqs, jobs } = await this.#parts.journal.feed.start({ owner, limit: MAX_JOBS + 1 })
      const shown = jobs.slice(0, MAX_JOBS)
      const found = await foldJobs(this.#parts, shown, ({ jobId, seq }) => seq <= seqs[partitionOf(jobId)]!)
      const lines = shown.flatMap(id => {
        const job = found.get(id)
        return job === undefined ? [] : [currentJobLine(job)]
      })
      const id = positionText({ store, at, partition: -1, place: 0, seqs })
      const more = jobs.length > MAX_JOBS ? { more: true } : {}
      return { seqs, bytes: Buffer.from(frame("snapshot", { jobs: lines, ...more }, id)) }
    })
  }

  /** null: the job does not exist any more. */
  job(jobId: string): Promise<JobSnapshot | null> {
    return this.#ofJobs.run(jobId, async () => {
      const job = (await foldJobs(this.#parts, [jobId], () => true)).get(jobId)
      if (job === undefined) return null
      const { state, plan, seq } = job
      const nodes = plan.nodes.map(({ id }, node) => ({
        node: id,
        status: nodeStatusOf(state, node),
        attempt: shownAttempt(state, node),
      }))
      const graph = nodes.length > MAX_NODES ? { more: true } : { nodes }
      const id = jobPositionText({ seq, place: WHOLE_FACT })
      const previews = (previewsField(state).previews ?? []).map(({ node, preview }) =>
        shownPreview({ node }, preview),
      )
      const line = { ...currentJobLine(job), ...(previews.length === 0 ? {} : { previews }) }
      return {
        status: state.status,
        seq,
        bytes: Buffer.from(frame("snapshot", { job: line, ...graph }, id)),
      }
    })
  }
}
