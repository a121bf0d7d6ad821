/** Changes of jobs' states, from a server's stream or by polling a database. */
import { setTimeout } from "node:timers/promises"
import type { StreamedJob, StreamOptions, UmbraClient } from "../../client/index.ts"
import { jobHasEnded } from "../../core/states.ts"
import type { JobSnapshot } from "../../engine/owner/snapshot.ts"
import type { Reader } from "../../jobs/reader.ts"

/** A job's current state. */
export type JobChange = Pick<
  StreamedJob,
  "job_id" | "workflow" | "workflow_version" | "status" | "created_at" | "finished_at" | "labels" | "error"
> &
  Partial<Pick<StreamedJob, "updated_at">> & { readonly start_at?: string | null }

/** Each state is reported once: a snapshot after a reset repeats known states. */
export async function* streamedChanges(
  client: Pick<UmbraClient, "stream">,
  options: StreamOptions,
): AsyncGenerator<JobChange, void, undefined> {
  const known = new Map<string, string>()
  for await (const event of client.stream(options)) {
    const jobs = event.type === "job" ? [event.data] : event.type === "snapshot" ? event.data.jobs : []
    for (const job of jobs) {
      if (known.get(job.job_id) !== job.status) yield job
      if (jobHasEnded(job.status)) known.delete(job.job_id)
      else known.set(job.job_id, job.status)
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
    await setTimeout(LOOK_AGAIN_MS, undefined, { signal }).catch(() => {})
  }
}

const isOver = ({ status }: JobSnapshot): boolean => jobHasEnded(status)
