/**
 * A folder or a database as the target of a command. This process opens only as much as it needs: for queries the
 * journal alone, which disturbs no other process; for a command to a job, the engine that owns the job. If there is none
 * (always so for a folder, which one process holds at a time), this process becomes an engine that starts no job and runs no node.
 */
import type {
  CompareOptions,
  ConfigOptions,
  DeadLettersOptions,
  DurationsFilter,
  FactPage,
  FactsOptions,
  FailurePage,
  FailuresOptions,
  ForkOptions,
  ForkPreview,
  ForkRequest,
  ItemsOptions,
  JobDescription,
  JobPage,
  JobSnapshot,
  JobsFilter,
  LineageOptions,
  NodeConfig,
  NodeOptions,
  RemoteComparison,
  RemoteDurations,
  RemoteEvent,
  RemoteGraph,
  RemoteGraphAt,
  RemoteItemPage,
  RemoteNodeDetails,
  ReplayOptions,
  SignalOptions,
  SubmitOptions,
  WaitPage,
  WaitsOptions,
  WhyOptions,
  WhyView,
} from "../../client/index.ts"
import { localOwner } from "../../core/facts.ts"
import type { Json } from "../../core/json.ts"
import { jobHasEnded } from "../../core/states.ts"
import { loadWorkflow } from "../../definition/index.ts"
import { invalidWorkflow } from "../../definition/problem.ts"
import { Plans } from "../../engine/plans.ts"
import type { JobCommand } from "../../engine/remote/commands.ts"
import type { MessagesQuery } from "../../engine/remote/live-messages.ts"
import { UmbraError } from "../../errors.ts"
import { noSuchJob, type StartOptions, startFields } from "../../jobs/arguments.ts"
import { factsAfter } from "../../jobs/facts.ts"
import { type Moment, noMoment, parseMoment } from "../../jobs/history.ts"
import {
  isoCompared,
  isoDurations,
  isoEvent,
  isoGraph,
  isoGraphAt,
  isoItems,
  isoItemsAt,
  isoNodeDetails,
} from "../../jobs/iso-times.ts"
import type { Queries } from "../../jobs/queries.ts"
import { Reader } from "../../jobs/reader.ts"
import { type Registered, Registrations } from "../../jobs/register.ts"
import { failureGroups } from "../../jobs/statistics.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Registry } from "../../journal/port/registry.ts"
import { isoDeadLetters, isoLineage, PipelineQueries } from "../../pipeline/queries.ts"
import { Tokens, tokenView } from "../../server/auth/tokens.ts"
import { limitsOf } from "../../server/http/limits.ts"
import { openUmbra, type Umbra, type UmbraOptions } from "../../umbra.ts"
import { workerSettings } from "../../worker/settings.ts"
import { adaptersFor, catalogWith, loadHandlers, type Modules } from "../input/modules.ts"
import { storeFlags, storeName } from "../input/store.ts"
import { commandLog } from "../output/log.ts"
import { type JobChange, polledChanges } from "./changes.ts"
import type { Target, TargetJobs, TargetOptions } from "./open.ts"
import { contentAt, openJournalAt, storeArtifacts } from "./store-artifacts.ts"
import { storeBulk } from "./store-bulk.ts"
import { storeSchedules } from "./store-schedules.ts"
import { storeWorkflows } from "./store-workflows.ts"

export function openStore(location: string, options: TargetOptions): Target {
  const { owner = localOwner } = options
  const store = new Store(location)
  const jobs = new StoreJobs(store, options.owner, options)
  return {
    name: storeName(location),
    flags: storeFlags(options),
    jobs,
    bulk: storeBulk(owner, () => store.journal(), {
      asEngine: use => jobs.asEngine(use),
      withHandlers: use => jobs.withHandlers(use),
    }),
    schedules: storeSchedules(
      owner,
      () => store.journal(),
      use => jobs.asEngine(use),
    ),
    workflows: storeWorkflows(owner, () => store.journal()),
    capacity: null,
    executions: async ({ signal: _, ...query }) => (await store.pipelines()).executions(owner, query),
    compiledGraph: async ({ job_id }) => (await store.reader()).facts.compiledGraphOf(job_id),
    artifacts: storeArtifacts(owner, location, () => store.journal()),
    logPage: async (id, { signal: _, ...query } = {}) => (await store.reader()).logPage(id, query),
    tokens: tokensOf(store),
    push: text => push(store, text, owner, options),
    changes: options => jobs.changes(options),
    get isRun() {
      return jobs.isRun
    },
    explain: async error => error,
    close: () => store.close(),
  }
}

function momentOf(at: number | string | Date): Moment {
  const moment = parseMoment(at instanceof Date ? at.toISOString() : String(at))
  if (moment === null) throw noMoment(String(at))
  return moment
}

/** One store, opened once. */
class Store {
  readonly location: string
  #journal: Promise<Journal> | null = null
  #engine: Promise<Umbra> | null = null
  #messenger: Promise<Umbra> | null = null
  #isHandedOver = false

  constructor(location: string) {
    this.location = location
  }

  journal(): Promise<Journal> {
    this.#journal ??= openJournalAt(this.location, commandLog("warn").log)
    return this.#journal
  }

  async reader(): Promise<Reader> {
    return new Reader(await this.journal(), { maxSignalBytes: workerSettings().maxOutputBytes })
  }

  async pipelines(): Promise<PipelineQueries> {
    const journal = await this.journal()
    const plans = new Plans(journal)
    const row: Queries["row"] = async id => {
      const found = await journal.readJob(id)
      if (found === null) throw noSuchJob(id)
      return found
    }
    const reader = await this.reader()
    const live = (query: MessagesQuery) => reader.messages(query)
    return new PipelineQueries({ store: journal.pipelines, plans, row, now: Date.now, live })
  }

  async statistics() {
    const journal = await this.journal()
    return { journal, plans: new Plans(journal), now: Date.now }
  }

  async registry(): Promise<Registry> {
    return (await this.journal()).registry
  }

  /** Does an engine run jobs? A folder belongs to this process alone. */
  async isRun(): Promise<boolean> {
    const journal = await this.journal()
    if (journal.capabilities.exclusive) return false
    return (await journal.readPartitions()).some(({ owner }) => owner !== null)
  }

  /** Sends commands to the engines of other processes; it takes no partitions from them. */
  messenger(): Promise<Umbra> {
    this.#messenger ??= openUmbra(this.location, { roles: ["api"], log: commandLog("error").log })
    return this.#messenger
  }

  engine(): Promise<Umbra> {
    this.#engine ??= this.#openEngine()
    return this.#engine
  }

  async close(): Promise<void> {
    const engine = await this.#engine?.catch(() => null)
    await engine?.close()
    await (await this.#messenger?.catch(() => null))?.close()
    if (engine && this.#isHandedOver) return
    await (await this.#journal?.catch(() => null))?.close()
  }

  async #openEngine(): Promise<Umbra> {
    const roles = { roles: ["engine"], runsPipelines: false, startsJobs: false } as const
    const options: UmbraOptions = { ...roles, ...contentAt(this.location), log: commandLog("error").log }
    const journal = await this.journal()
    // A folder can be opened only once: the engine takes over the journal, and closes it.
    this.#isHandedOver = journal.capabilities.exclusive
    return openUmbra(this.#isHandedOver ? journal : this.location, options)
  }
}

async function push(store: Store, text: string, owner: string, modules: Modules): Promise<Registered> {
  const handlers = catalogWith(await loadHandlers(modules))
  const adapters = await adaptersFor(text, modules)
  const { plan, problems } = loadWorkflow(text, { handlers, adapters })
  if (plan === undefined) throw invalidWorkflow(problems)
  const journal = await store.journal()
  const parts = { journal, plans: new Plans(journal), handlers, adapters, now: Date.now }
  return new Registrations(parts).registerPlan(plan, owner, "local")
}

function tokensOf(store: Store): Target["tokens"] {
  const tokens = async () => new Tokens(await store.registry())
  return {
    async create({ owner = localOwner, scopes, ...wanted }) {
      const limits = limitsOf(wanted)
      const { token, row } = await (await tokens()).create({ owner, scopes: scopes as never, limits })
      return { ...tokenView(row), token, server_is_open: false }
    },
    async list({ owner } = {}) {
      return (await (await tokens()).list({ owner })).map(tokenView)
    },
    async revoke(id) {
      await (await tokens()).revoke(id)
    },
  }
}

/** Jobs of all owners, unless one is named: a user who can open the store can see all of it. New jobs belong to `local`. */
class StoreJobs implements TargetJobs {
  readonly #store: Store
  readonly #only: { readonly owner?: string }
  readonly #modules: Modules
  isRun = false

  constructor(store: Store, owner: string | undefined, modules: Modules) {
    this.#modules = modules
    this.#store = store
    this.#only = owner === undefined ? {} : { owner }
  }

  async job(id: string): Promise<JobSnapshot> {
    return (await this.#store.reader()).job(id)
  }

  async failures({ signal: _, ...request }: FailuresOptions = {}): Promise<FailurePage> {
    return failureGroups(await this.#store.statistics(), { ...request, ...this.#only })
  }

  async jobPage({ limit = 50, signal: _, ...filter }: JobsFilter = {}): Promise<JobPage> {
    return (await this.#store.reader()).jobPage({ ...filter, ...this.#only, limit })
  }

  async graph(id: string): Promise<RemoteGraph> {
    return isoGraph(await (await this.#store.reader()).graph(id)) as RemoteGraph
  }

  async graphAt(id: string, at: number | string | Date): Promise<RemoteGraphAt> {
    const { facts } = await this.#store.reader()
    return isoGraphAt(await facts.graphAt(id, momentOf(at))) as RemoteGraphAt
  }

  async compare(a: string, b: string, { atA, atB, diff }: CompareOptions = {}): Promise<RemoteComparison> {
    const moments = {
      atA: atA === undefined ? undefined : momentOf(atA),
      atB: atB === undefined ? undefined : momentOf(atB),
    }
    return isoCompared(await (await this.#store.reader()).compare(a, b, { ...moments, diff }))
  }

  async why(id: string, { node, at }: WhyOptions = {}): Promise<WhyView> {
    const text = at instanceof Date ? at.toISOString() : String(at)
    const moment = at === undefined ? undefined : parseMoment(text)
    if (moment === null) throw noMoment(text)
    return (await this.#store.reader()).why(id, { node, at: moment })
  }

  async waits({ signal: _, ...request }: WaitsOptions = {}): Promise<WaitPage> {
    return (await this.#store.reader()).waits({ ...request, ...this.#only })
  }

  async factPage(id: string, { after, limit = 100 }: FactsOptions = {}): Promise<FactPage> {
    const { facts } = await this.#store.reader()
    return facts.page(id, { ...factsAfter(after === undefined ? undefined : String(after)), limit })
  }

  async payload(id: string, seq: number, field: string): Promise<Json> {
    const { facts } = await this.#store.reader()
    return JSON.parse((await facts.payload(id, { seq, field })).text) as Json
  }

  async durations({ signal: _, ...filter }: DurationsFilter = {}): Promise<RemoteDurations> {
    return isoDurations(await (await this.#store.reader()).durations({ ...filter, ...this.#only }))
  }

  async nodeConfig(id: string, node: string, { attempt, item }: ConfigOptions = {}): Promise<NodeConfig> {
    return (await this.#store.reader()).facts.config(id, node, { attempt, item })
  }

  async node(id: string, node: string, of?: NodeOptions): Promise<RemoteNodeDetails> {
    return isoNodeDetails(await (await this.#store.reader()).node(id, node, of)) as RemoteNodeDetails
  }

  async items(id: string, node: string, options: ItemsOptions = {}): Promise<RemoteItemPage> {
    const reader = await this.#store.reader()
    const { at, after = -1, limit = 100 } = options
    return (
      at === undefined
        ? isoItems(await reader.items(id, node, { after, limit }))
        : isoItemsAt(await reader.facts.itemsAt(id, node, { at: momentOf(at), after, limit }))
    ) as RemoteItemPage
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
    return this.asEngine(async umbra => {
      const { jobId, isNew } = await umbra.accept(reference, input, { ...options, ...this.#only })
      return { ...(await umbra.job(jobId)), is_new: isNew }
    })
  }

  /** Through the engines of other processes, if there are any, or with an engine of this process that runs no nodes. */
  async asEngine<T>(submitTo: (umbra: Umbra) => Promise<T>): Promise<T> {
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

  async lineage(id: string, message: string, { signal: _, ...query }: LineageOptions = {}) {
    return isoLineage(await (await this.#store.pipelines()).lineage(id, message, query))
  }

  async deadLetterPage(id: string, { signal: _, ...query }: DeadLettersOptions = {}) {
    return isoDeadLetters(await (await this.#store.pipelines()).deadLetters(id, query))
  }

  replay(id: string, { signal: _, ...which }: ReplayOptions = {}) {
    return this.asEngine(async umbra => {
      const { jobId, replayed } = await umbra.pipelines.replay(id, which)
      return { ...(await umbra.job(jobId)), replayed }
    })
  }

  acceptFork(
    id: string,
    request: ForkRequest = {},
    { idempotencyKey }: ForkOptions = {},
  ): Promise<JobSnapshot & { readonly is_new: boolean }> {
    return this.withHandlers(async umbra => {
      const { jobId, isNew } = await umbra.acceptFork(id, request, { idempotencyKey, ...this.#only })
      return { ...(await umbra.job(jobId)), is_new: isNew }
    })
  }

  previewFork(id: string, request?: ForkRequest): Promise<ForkPreview> {
    return this.withHandlers(umbra => umbra.previewFork(id, request, this.#only))
  }

  /** The handlers declare their effects; none of them runs here. */
  withHandlers<T>(use: (umbra: Umbra) => Promise<T>): Promise<T> {
    return this.asEngine(async umbra => {
      const known = await loadHandlers(this.#modules)
      umbra.addHandlers(known.filter(({ name }) => umbra.handlers.get(name) === undefined))
      return use(umbra)
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
    return this.#command(id, { type: "signal", name, data, by: "local", ...options })
  }

  pause(id: string, { reason }: { readonly reason?: string | undefined } = {}): Promise<JobSnapshot> {
    return this.#command(id, { type: "pause", reason, by: "local" })
  }

  resume(id: string): Promise<JobSnapshot> {
    return this.#command(id, { type: "resume", by: "local" })
  }

  reschedule(id: string, start: StartOptions): Promise<JobSnapshot> {
    return this.#command(id, { type: "reschedule", by: "local", ...startFields(start) })
  }

  describe(id: string, { labels, note }: JobDescription): Promise<JobSnapshot> {
    return this.#command(id, { type: "describe", labels, note, by: "local" })
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
