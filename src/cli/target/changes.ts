/** Changes of jobs' states, from a server's stream or by polling a database. */
import type { StreamedJob, StreamOptions, UmbraClient } from "../../client/index.ts"
import { jobHasEnded } from "../../core/states.ts"
import type { JobSnapshot } from "../../engine/owner/snapshot.ts"
import type { Reader } from "../../jobs/reader.ts"

/** A job's current state. */
export type JobChange = Pick<
  StreamedJob,
  "job_id" | "workflow" | "workflow_version" | "status" | "created_at" | "finished_at" | "labels" | "error"
> &
  Partial<Pick<StreamedJob, "updated_at">>

/** Each state is reported once: a snapshot after a reset repeats known states. */
class Told {
  readonly #states = new Map<string, string>()

  isNews({ job_id, status }: JobChange): boolean {
    if (this.#states.get(job_id) === status) return false
    this.#states.set(job_id, status)
    return true
  }

  forget(jobId: string): void {
    this.#states.delete(jobId)
  }
}

export async function* streamedChanges(
  client: Pick<UmbraClient, "stream">,
  options: StreamOptions,
): AsyncGenerator<JobChange, void, undefined> {
  const told = new Told()
  for await (const event of client.stream(options)) {
    const jobs = event.type === "job" ? [event.data] : event.type === "snapshot" ? event.data.jobs : []
    for (const job of jobs) {
      if (told.isNews(job)) yield job
      if (jobHasEnded(job.status)) told.forget(job.job_id)
    }
  }
}

/** Jobs of one poll. If more than these start and end between two polls, the oldest are missed. */
const NEWEST = 200
const LOOK_AGAIN_MS = 500

/** Without a server there are no notifications: intermediate states may be missed, the last state of a job never. */
export async function* polledChanges(
  reader: Reader,
  whose: { readonly owner?: string },
  signal: AbortSignal,
): AsyncGenerator<JobChange, void, undefined> {
  let open = new Map<string, JobSnapshot>()
  // Jobs that had ended before the first poll are not changes.
  let endedBefore = new Set(
    (await reader.jobs({ ...whose, limit: NEWEST })).filter(isOver).map(({ job_id }) => job_id),
  )
  while (!signal.aborted) {
    const page = await reader.jobs({ ...whose, limit: NEWEST, deleted: true })
    const inPage = new Set(page.map(({ job_id }) => job_id))
    const others = await Promise.all([...open.keys()].filter(id => !inPage.has(id)).map(id => reader.job(id)))
    const seen = [...others, ...page.toReversed()]
    for (const job of seen)
      if (open.get(job.job_id)?.status !== job.status && !(isOver(job) && endedBefore.has(job.job_id)))
        yield job
    open = new Map(seen.filter(job => !isOver(job)).map(job => [job.job_id, job]))
    endedBefore = new Set(page.filter(isOver).map(({ job_id }) => job_id))
    await pause(signal)
  }
}

const isOver = ({ status }: JobSnapshot): boolean => jobHasEnded(status)

function pause(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(done, LOOK_AGAIN_MS)
    function done() {
      clearTimeout(timer)
      signal.removeEventListener("abort", done)
      resolve()
    }
    signal.addEventListener("abort", done, { once: true })
  })
}
