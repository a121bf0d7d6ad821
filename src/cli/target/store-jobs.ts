import type {
  DeadLettersOptions,
  JobPage,
  JobSnapshot,
  JobsFilter,
  Lineage,
  LineageOptions,
  NodeOptions,
  RemoteEvent,
  RemoteGraph,
  RemoteNodeDetails,
  ReplayJob,
  ReplayOptions,
  SignalOptions,
  SubmitOptions,
} from "../../client/index.ts"
import type { Json } from "../../core/json.ts"
import { jobHasEnded } from "../../core/states.ts"
import type { JobCommand } from "../../engine/remote/commands.ts"
import { UmbraError } from "../../errors.ts"
import { isoEvent, isoGraph, isoNodeDetails } from "../../jobs/iso-times.ts"
import { isoDeadLetters, isoLineage } from "../../pipeline/iso-times.ts"
import type { Umbra } from "../../umbra.ts"
import { storeName } from "../input/store.ts"
import { type JobChange, polledChanges } from "./changes.ts"
import type { Store } from "./store.ts"
import type { TargetJobs } from "./target.ts"

/** Jobs of all owners, unless one is named: a user who can open the store can see all of it. New jobs belong to `local`. */
export class StoreJobs implements TargetJobs {
  readonly #store: Store
  readonly #only: { readonly owner?: string }
  isRun = false

  constructor(store: Store, owner: string | undefined) {
    this.#store = store
    this.#only = owner === undefined ? {} : { owner }
  }

  async job(id: string): Promise<JobSnapshot> {
    return (await this.#store.reader()).job(id)
  }

  async jobPage({ limit = 50, signal: _, ...filter }: JobsFilter = {}): Promise<JobPage> {
    return (await this.#store.reader()).jobPage({ ...filter, ...this.#only, limit })
  }

  async graph(id: string): Promise<RemoteGraph> {
    return isoGraph(await (await this.#store.reader()).graph(id)) as RemoteGraph
  }

  async node(id: string, node: string, of?: NodeOptions): Promise<RemoteNodeDetails> {
    return isoNodeDetails(await (await this.#store.reader()).node(id, node, of)) as RemoteNodeDetails
  }

  async events(id: string): Promise<readonly RemoteEvent[]> {
    return (await (await this.#store.reader()).events(id)).map(isoEvent)
  }

  async *watch(
    id: string,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<RemoteEvent, void, undefined> {
    const reader = await this.#store.reader()
    if (reader.isExclusive && !jobHasEnded((await reader.job(id)).status))
      throw this.#noEngine(`Job ${id} waits`)
    for await (const event of reader.watch(id, options)) yield isoEvent(event)
  }

  async *changes({ signal }: { readonly signal: AbortSignal }): AsyncGenerator<JobChange, void, undefined> {
    const reader = await this.#store.reader()
    if (reader.isExclusive) throw this.#noEngine("No job will change")
    yield* polledChanges(reader, this.#only, signal)
  }

  accept(
    reference: string,
    input: unknown,
    { signal: _, ...options }: SubmitOptions,
  ): Promise<JobSnapshot & { readonly is_new: boolean }> {
    return this.#asEngine(async umbra => {
      const { jobId, isNew } = await umbra.accept(reference, input, { ...options, ...this.#only })
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

  async deadLetterPage(id: string, { signal: _, ...query }: DeadLettersOptions = {}) {
    return isoDeadLetters(await (await this.#store.pipelines()).deadLetters(id, query))
  }

  replay(id: string, { signal: _, ...which }: ReplayOptions = {}): Promise<ReplayJob> {
    return this.#asEngine(async umbra => {
      const { jobId, replayed } = await umbra.pipelines.replay(id, which)
      return { ...(await umbra.job(jobId)), replayed }
    })
  }

  cancel(id: string, reason?: string): Promise<JobSnapshot> {
    return this.#command(id, { type: "cancel", ...(reason === undefined ? {} : { reason }) })
  }

  retry(id: string): Promise<JobSnapshot> {
    return this.#command(id, { type: "retry" })
  }

  async delete(id: string): Promise<void> {
    await this.#command(id, { type: "delete" })
  }

  signal(id: string, name: string, data: Json = null, options: SignalOptions = {}): Promise<JobSnapshot> {
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

  #noEngine(what: string): UmbraError {
    return new UmbraError(
      "E604",
      `${what}: no engine runs the jobs in ${storeName(this.#store.location)}. Start \`umbra serve\`, or run them with \`umbra resume\`.`,
    )
  }
}
