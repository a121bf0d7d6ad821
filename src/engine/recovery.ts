import { failpoint } from "../failpoints.ts"
import type { DueJob } from "../journal/port.ts"
import type { Log } from "../log.ts"
import type { Clock } from "./clock.ts"
import type { LiveJob } from "./live-job.ts"
import { foldJob, type LoadParts, readJobs, toLiveJob } from "./load.ts"
import type { Owner } from "./owner.ts"

/** Brings jobs from the journal into their owner's memory: at take-over, when their time has come, or on a command. */
export class Recovery {
  readonly #parts: LoadParts
  readonly #owner: Owner
  readonly #clock: Clock
  readonly #log: Log
  readonly #loading = new Map<string, Promise<LiveJob | null>>()

  constructor(parts: LoadParts & { owner: Owner; clock: Clock; log: Log }) {
    this.#parts = parts
    this.#owner = parts.owner
    this.#clock = parts.clock
    this.#log = parts.log
  }

  /** null: there is no such job. */
  async load(id: string): Promise<LiveJob | null> {
    const here = this.#owner.jobs.get(id)
    if (here !== undefined) return here
    const under = this.#loading.get(id)
    if (under !== undefined) return under
    const loading = this.#loadOne(id).finally(() => this.#loading.delete(id))
    this.#loading.set(id, loading)
    return loading
  }

  async #loadOne(id: string): Promise<LiveJob | null> {
    const rows = (await readJobs(this.#parts, [id])).get(id)
    if (rows === undefined) return null
    const job = toLiveJob(id, await foldJob(this.#parts, rows))
    this.#owner.adopt(job)
    return job
  }

  /** After take-over: everything that was in flight is lost with its process, and goes on here. */
  async recover(partitions: readonly number[]): Promise<void> {
    failpoint("recover.before")
    const at = this.#clock.now()
    await this.#eachDue({ partitions, at }, job => {
      void this.#owner.act(job, { type: "recover" })
      this.#owner.ring(job)
    })
    failpoint("recover.after")
  }

  /** Jobs that left memory and whose time has come since `after`. Answers when the next one is due. */
  async wakeDue(query: { partitions: readonly number[]; after: DueJob; at: number }): Promise<number | null> {
    return this.#eachDue(query, job => this.#owner.ring(job))
  }

  async #eachDue(
    query: { partitions: readonly number[]; after?: DueJob; at: number },
    act: (job: LiveJob) => void,
  ): Promise<number | null> {
    let { after } = query
    for (;;) {
      const due = await this.#parts.journal.dueJobs({
        ...query,
        ...(after === undefined ? {} : { after }),
        limit: PAGE,
      })
      const ids = due.jobs.map(job => job.id).filter(id => !this.#owner.jobs.has(id))
      const rows = ids.length === 0 ? null : await readJobs(this.#parts, ids)
      for (const id of ids) await this.#wake(id, rows?.get(id) ?? [], act)
      after = due.jobs.at(-1)
      if (due.jobs.length < PAGE) return due.nextWakeAt
    }
  }

  async #wake(id: string, rows: Parameters<typeof foldJob>[1], act: (job: LiveJob) => void): Promise<void> {
    try {
      const folded = await foldJob(this.#parts, rows)
      if (this.#owner.jobs.has(id)) return
      const job = toLiveJob(id, folded)
      if (!this.#owner.holdings.has(job.partition)) return
      this.#owner.adopt(job)
      act(job)
    } catch (error) {
      // One job that cannot be folded must not stop the others.
      this.#log.error({ job_id: id, error }, "job set aside: its journal cannot be folded")
    }
  }
}

/** Jobs read at once: their facts are in memory together. */
const PAGE = 500
