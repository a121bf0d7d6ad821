import type {
  DeadLetterPage,
  DeadLettersOptions,
  Lineage,
  LineageOptions,
  ReplayJob,
  ReplayOptions,
} from "../../client/index.ts"
import type { Json } from "../../core/json.ts"
import { jobHasEnded } from "../../core/states.ts"
import type { JobEvent } from "../../core/view/events.ts"
import type { GraphView } from "../../core/view/view.ts"
import type { JobSnapshot } from "../../engine/owner/snapshot.ts"
import type { JobCommand } from "../../engine/remote/commands.ts"
import { UmbraError } from "../../errors.ts"
import type { SignalOptions } from "../../jobs/handle.ts"
import type { NodeDetails } from "../../jobs/queries.ts"
import { isoDeadLetters, isoLineage } from "../../pipeline/iso-times.ts"
import type { Umbra } from "../../umbra.ts"
import { storeName } from "../input/store.ts"
import { type JobChange, polledChanges } from "./changes.ts"
import type { Store } from "./store.ts"
import type { TargetJobs } from "./target.ts"

type Filter = NonNullable<Parameters<TargetJobs["jobPage"]>[0]>

/** Jobs of all owners, unless one is named: a user who can open the store can see all of it. New jobs belong to `local`. */
export class StoreJobs implements TargetJobs {
  readonly #store: Store
  readonly #owner: string | undefined
  isRun = false

  constructor(store: Store, owner: string | undefined) {
    this.#store = store
    this.#owner = owner
  }

  async job(id: string): Promise<JobSnapshot> {
    return (await this.#store.reader()).job(id)
  }

  async jobPage(filter: Filter = {}): Promise<{ jobs: JobSnapshot[]; next: string | null }> {
    const { limit = 50, signal: _, ...rest } = filter
    // One more than is shown, to know whether there is another page.
    const found = await (await this.#store.reader()).jobs({ ...rest, ...this.#only(), limit: limit + 1 })
    const jobs = found.slice(0, limit)
    return { jobs, next: found.length > limit ? jobs.at(-1)!.job_id : null }
  }

  async graph(id: string): Promise<GraphView> {
    return (await this.#store.reader()).graph(id)
  }

  async node(id: string, node: string, of?: { readonly item?: number | undefined }): Promise<NodeDetails> {
    return (await this.#store.reader()).node(id, node, of)
  }

  async events(id: string): Promise<readonly JobEvent[]> {
    return (await this.#store.reader()).events(id)
  }

  async *watch(
    id: string,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<JobEvent, void, undefined> {
    const reader = await this.#store.reader()
    if (reader.isExclusive && !jobHasEnded((await reader.job(id)).status))
      throw this.#noEngine(`Job ${id} waits`)
    yield* reader.watch(id, options)
  }

  async *changes({ signal }: { readonly signal: AbortSignal }): AsyncGenerator<JobChange, void, undefined> {
    const reader = await this.#store.reader()
    if (reader.isExclusive) throw this.#noEngine("No job will change")
    yield* polledChanges(reader, this.#only(), signal)
  }

  async submit(
    reference: string,
    input: unknown,
    { signal: _, ...options }: Parameters<TargetJobs["submit"]>[2],
  ): Promise<JobSnapshot & { readonly is_new: boolean }> {
    return this.#asEngine(async umbra => {
      const { jobId, isNew } = await umbra.accept(reference, input, { ...options, ...this.#only() })
      return { ...(await umbra.job(jobId)), is_new: isNew }
    })
  }

  /** Through the engines of other processes, if there are any, or with an engine of this process that runs no nodes. */
  async #asEngine<T>(submitTo: (umbra: Umbra) => Promise<T>): Promise<T> {
    this.isRun = await this.#store.isRun()
    if (!this.isRun) return submitTo(await this.#store.engine())
    try {
      return await submitTo(await this.#store.messenger())
    } catch (error) {
      // The engine that owned the jobs is dead.
      if (!(error instanceof UmbraError && error.code === "E610")) throw error
      this.isRun = false
      return submitTo(await this.#store.engine())
    }
  }

  async lineage(id: string, message: string, { limit }: LineageOptions = {}): Promise<Lineage> {
    return isoLineage(await (await this.#store.pipelines()).lineage(id, message, limit))
  }

  async deadLetterPage(
    id: string,
    { signal: _, ...query }: DeadLettersOptions = {},
  ): Promise<DeadLetterPage> {
    return isoDeadLetters(await (await this.#store.pipelines()).deadLetters(id, query))
  }

  replay(id: string, { signal: _, ...which }: ReplayOptions = {}): Promise<ReplayJob> {
    return this.#asEngine(async umbra => {
      const { jobId, replayed } = await umbra.pipelines.replay(id, which)
      return { ...(await umbra.job(jobId)), replayed }
    })
  }

  async cancel(id: string, reason?: string): Promise<JobSnapshot> {
    return this.#command(id, { type: "cancel", ...(reason === undefined ? {} : { reason }) })
  }

  async retry(id: string): Promise<JobSnapshot> {
    return this.#command(id, { type: "retry" })
  }

  async delete(id: string): Promise<void> {
    await this.#command(id, { type: "delete" })
  }

  async signal(
    id: string,
    name: string,
    data: Json = null,
    options: SignalOptions = {},
  ): Promise<JobSnapshot> {
    return this.#command(id, { type: "signal", name, data, ...options })
  }

  async #command(id: string, command: JobCommand): Promise<JobSnapshot> {
    const reader = await this.#store.reader()
    this.isRun = await reader.sendCommand(id, command)
    if (this.isRun) return reader.job(id)
    const engine = await this.#store.engine()
    await engine.command(id, command)
    return engine.job(id)
  }

  #only(): { readonly owner?: string } {
    return this.#owner === undefined ? {} : { owner: this.#owner }
  }

  #noEngine(what: string): UmbraError {
    return new UmbraError(
      "E604",
      `${what}: no engine runs the jobs in ${storeName(this.#store.location)}. Start \`umbra serve\`, or run them with \`umbra resume\`.`,
    )
  }
}
