import { expand, type JobEvent } from "../core/events.ts"
import type { Json } from "../core/json.ts"
import { type JobState, LargeOutput, newJobState } from "../core/state.ts"
import { jobHasEnded } from "../core/states.ts"
import { wakeAt } from "../core/timers.ts"
import { UmbraError } from "../errors.ts"
import type { JobRow } from "../journal/port.ts"
import { jobErrorOf, jobOutput } from "./job-result.ts"
import { type JobSnapshot, snapshotOfRow } from "./job-snapshot.ts"
import type { LiveJob } from "./live-job.ts"
import { type FoldedJob, foldJob, type LoadParts, readJobs } from "./load.ts"
import type { Watchers } from "./watchers.ts"

/** A job that another process runs brings no news here. */
const LOOK_AGAIN_MS = 250

/** What can be asked of the store without owning anything: the journal, folded. */
export class Queries {
  readonly #parts: LoadParts & { live(jobId: string): LiveJob | undefined }

  constructor(parts: LoadParts & { live(jobId: string): LiveJob | undefined }) {
    this.#parts = parts
  }

  async fold(jobId: string): Promise<FoldedJob> {
    const rows = (await readJobs(this.#parts, [jobId])).get(jobId)
    if (rows === undefined) throw new UmbraError("E301", `Job ${jobId} does not exist.`)
    return foldJob(this.#parts, rows)
  }

  /** Is the node in a worker's hands in this process? */
  isRunning(jobId: string, node: number): boolean {
    return this.#parts.live(jobId)?.running.has(node) ?? false
  }

  /** A completed job with an output too large for its row: put together from the journal. */
  async snapshot(row: JobRow): Promise<JobSnapshot> {
    const { plan, state } = await this.fold(row.id)
    await this.#fetchLarge(row.id, state)
    return { ...snapshotOfRow(row), output: jobOutput(plan, state) ?? null }
  }

  async events(jobId: string): Promise<JobEvent[]> {
    const { plan, facts } = await this.fold(jobId)
    const state = newJobState(plan)
    return facts.flatMap(recorded => expand(state, jobId, recorded))
  }

  /** Events as they become durable, from the job's beginning until it has ended. */
  async *watch(
    jobId: string,
    watchers: Watchers,
    { signal }: { readonly signal?: AbortSignal },
  ): AsyncGenerator<JobEvent, void, undefined> {
    let state: JobState | null = null
    let seen = -1
    while (signal?.aborted !== true) {
      const news = watchers.next(jobId, LOOK_AGAIN_MS)
      const { plan, facts } = await this.fold(jobId)
      state ??= newJobState(plan)
      for (const recorded of facts) {
        if (recorded.seq <= seen) continue
        seen = recorded.seq
        yield* expand(state, jobId, recorded)
      }
      if (jobHasEnded(state.status)) {
        news.cancel()
        return
      }
      await news.settled
    }
  }

  /** J18: folds the job's journal and compares it with its projection. Answers what differs. */
  async verify(row: JobRow): Promise<string[]> {
    const rows = (await readJobs(this.#parts, [row.id])).get(row.id) ?? []
    const covered = rows.filter(fact => fact.seq <= row.seq)
    if (covered.length === 0) return ["the job has no journal"]
    const { plan, state } = await foldJob(this.#parts, covered)
    await this.#fetchLarge(row.id, state)
    const differences: string[] = []
    const compare = (what: string, journal: unknown, projection: unknown) => {
      const [inJournal, inProjection] = [JSON.stringify(journal), JSON.stringify(projection)]
      if (inJournal !== inProjection)
        differences.push(`${what}: journal ${inJournal}, projection ${inProjection}`)
    }
    compare("status", state.status, row.status)
    compare("owner", state.owner, row.owner)
    compare("workflow", [state.workflow, state.workflowVersion], [row.workflow, row.workflowVersion])
    compare("created_at", state.createdAt, row.createdAt)
    compare("finished_at", state.finishedAt, row.finishedAt)
    compare("error", jobErrorOf(plan, state), row.error === null ? null : JSON.parse(row.error))
    if (row.status === "COMPLETED" && row.output !== null)
      compare("output", jobOutput(plan, state), JSON.parse(row.output))
    if (!wakesInTime(state, row.wakeAt))
      differences.push(`wake_at: journal ${wakeAt(state)}, projection ${row.wakeAt}`)
    if (covered.length < rows.length) differences.push(...(await this.#verifyRest(rows, row)))
    return differences
  }

  /** Facts behind the projection are right as long as they changed nothing it shows. */
  async #verifyRest(rows: Parameters<typeof foldJob>[1], row: JobRow): Promise<string[]> {
    const { state } = await foldJob(this.#parts, rows)
    return state.status === row.status
      ? []
      : [`status: journal ${state.status} at its end, projection ${row.status}`]
  }

  async #fetchLarge(jobId: string, state: JobState): Promise<void> {
    for (const [node, output] of state.outputs.entries()) {
      if (!(output instanceof LargeOutput)) continue
      const data = await this.#parts.journal.readFact(jobId, output.seq)
      state.outputs[node] = (JSON.parse(data ?? "{}").output ?? null) as Json
    }
  }
}

/** A job must be woken not later than its journal says; one with work in flight at any time that has passed. */
function wakesInTime(state: JobState, stored: number | null): boolean {
  const wake = wakeAt(state)
  if (wake === null || stored === null) return wake === stored
  return state.active > 0 || state.retryAt.size > 0 ? stored <= Math.max(wake, Date.now()) : stored <= wake
}
