/**
 * A folder or a database as the target of a command. This process opens only as much as it needs: for queries the
 * journal alone, which disturbs no other process; for a command to a job, the engine that owns the job. If there is none
 * (always so for a folder, which one process holds at a time), this process becomes an engine that starts no job and runs no node.
 */
import { entries } from "../../client/http.ts"
import type {
  JobSnapshot,
  RemoteGraph,
  RemoteGraphAt,
  RemoteItemPage,
  RemoteNodeDetails,
} from "../../client/index.ts"
import { localOwner } from "../../core/facts.ts"
import { jobHasEnded } from "../../core/states.ts"
import { loadWorkflow } from "../../definition/index.ts"
import { invalidWorkflow } from "../../definition/problem.ts"
import { Plans } from "../../engine/plans.ts"
import type { JobCommand } from "../../engine/remote/commands.ts"
import type { MessagesQuery } from "../../engine/remote/live-messages.ts"
import { announceSchedule } from "../../engine/schedules/schedules.ts"
import { UmbraError } from "../../errors.ts"
import { noSuchJob, startFields } from "../../jobs/arguments.ts"
import { BulkQueries } from "../../jobs/bulk/bulk.ts"
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
import { ScheduleRequests } from "../../jobs/schedules/schedules.ts"
import { failureGroups } from "../../jobs/statistics.ts"
import type { Journal } from "../../journal/port/journal.ts"
import { isoDeadLetters, isoLineage, PipelineQueries } from "../../pipeline/queries.ts"
import { Tokens, tokenView } from "../../server/auth/tokens.ts"
import { toTokenLimits } from "../../server/http/limits.ts"
import { openUmbra, type Umbra, type UmbraOptions } from "../../umbra.ts"
import { workerSettings } from "../../worker/settings.ts"
import { adaptersFor, catalogWith, loadHandlers, type Modules } from "../input/modules.ts"
import { storeFlags, storeName } from "../input/store.ts"
import { commandLog } from "../output/log.ts"
import { polledChanges } from "./changes.ts"
import type { Target, TargetBulk, TargetJobs, TargetOptions, TargetSchedules } from "./open.ts"
import { contentAt, openJournalAt, storeArtifacts } from "./store-artifacts.ts"
import { storeWorkflows } from "./store-workflows.ts"

export function openStore(location: string, options: TargetOptions): Target {
  const { owner = localOwner } = options
  const store = new Store(location, options)
  const only = options.owner === undefined ? {} : { owner: options.owner }
  return {
    name: storeName(location),
    flags: storeFlags(options),
    jobs: storeJobs(store, only),
    bulk: storeBulk(owner, store),
    schedules: storeSchedules(owner, store),
    workflows: storeWorkflows(owner, store),
    capacity: null,
    executions: async ({ signal: _, ...query }) => (await store.pipelines()).executions(owner, query),
    compiledGraph: async ({ job_id }) => (await store.reader()).facts.readCompiledGraph(job_id),
    artifacts: storeArtifacts(owner, location, store),
    logPage: async (id, { signal: _, ...query } = {}) => (await store.reader()).logPage(id, query),
    tokens: storeTokens(store),
    push: text => push(store, text, owner, options),
    async *changes({ signal }) {
      const reader = await store.reader()
      if (reader.isExclusive) throw store.noEngine("Nothing to watch")
      yield* polledChanges(reader, only, signal)
    },
    get isRun() {
      return store.isRun
    },
    explain: async error => error,
    close: () => store.close(),
  }
}

function requireMoment(at: number | string | Date): Moment {
  const text = at instanceof Date ? at.toISOString() : String(at)
  const moment = parseMoment(text)
  if (moment === null) throw noMoment(text)
  return moment
}

const ifGiven = (at: number | string | Date | undefined) => (at === undefined ? undefined : requireMoment(at))

/** One store, opened once. */
export class Store {
  /** Does an engine run jobs? Known after a command. */
  isRun = false
  readonly #location: string
  readonly #modules: Modules
  #journal: Promise<Journal> | null = null
  #engine: Promise<Umbra> | null = null
  #messenger: Promise<Umbra> | null = null
  #isHandedOver = false

  constructor(location: string, modules: Modules) {
    this.#location = location
    this.#modules = modules
  }

  journal(): Promise<Journal> {
    this.#journal ??= openJournalAt(this.#location, commandLog("warn").log)
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

  /** Through the engines of other processes, if there are any, or with an engine of this process that runs no nodes. */
  async asEngine<T>(submitTo: (umbra: Umbra) => Promise<T>): Promise<T> {
    const journal = await this.journal()
    // A folder belongs to this process alone.
    this.isRun =
      !journal.capabilities.exclusive && (await journal.readPartitions()).some(({ owner }) => owner !== null)
    if (!this.isRun) return submitTo(await this.#ownEngine())
    try {
      // It sends commands to the engines of other processes, and takes no partitions from them.
      this.#messenger ??= openUmbra(this.#location, { roles: ["api"], log: commandLog("error").log })
      return await submitTo(await this.#messenger)
    } catch (error) {
      // The engine that owned the jobs is dead.
      if (!(error instanceof UmbraError && error.code === "E610")) throw error
      this.isRun = false
      return submitTo(await this.#ownEngine())
    }
  }

  /** The handlers declare their effects; none of them runs here. */
  withHandlers<T>(use: (umbra: Umbra) => Promise<T>): Promise<T> {
    return this.asEngine(async umbra => {
      const known = await loadHandlers(this.#modules)
      umbra.addHandlers(known.filter(({ name }) => umbra.handlers.get(name) === undefined))
      return use(umbra)
    })
  }

  async command(id: string, command: JobCommand): Promise<JobSnapshot> {
    const reader = await this.reader()
    this.isRun = await reader.sendCommand(id, command)
    if (this.isRun) return reader.job(id)
    const engine = await this.#ownEngine()
    await engine.command(id, command)
    return engine.job(id)
  }

  noEngine(what: string): UmbraError {
    return new UmbraError(
      "E604",
      `${what}: no engine runs the jobs in ${storeName(this.#location)}. Start \`umbra serve\`, or run them with \`umbra resume\`.`,
    )
  }

  async close(): Promise<void> {
    const engine = await this.#engine?.catch(() => null)
    await engine?.close()
    await (await this.#messenger?.catch(() => null))?.close()
    if (engine && this.#isHandedOver) return
    await (await this.#journal?.catch(() => null))?.close()
  }

  #ownEngine(): Promise<Umbra> {
    this.#engine ??= this.#openEngine()
    return this.#engine
  }

  async #openEngine(): Promise<Umbra> {
    const roles = { roles: ["engine"], runsPipelines: false, startsJobs: false } as const
    const options: UmbraOptions = { ...roles, ...contentAt(this.#location), log: commandLog("error").log }
    const journal = await this.journal()
    // A folder can be opened only once: the engine takes over the journal, and closes it.
    this.#isHandedOver = journal.capabilities.exclusive
    return openUmbra(this.#isHandedOver ? journal : this.#location, options)
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

function storeTokens(store: Store): Target["tokens"] {
  const tokens = async () => new Tokens((await store.journal()).registry)
  return {
    async create({ owner = localOwner, scopes, ...wanted }) {
      const limits = toTokenLimits(wanted)
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
function storeJobs(store: Store, only: { readonly owner?: string }): TargetJobs {
  const by = "local"
  return {
    job: async id => (await store.reader()).job(id),
    failures: async ({ signal: _, ...request } = {}) =>
      failureGroups(await store.statistics(), { ...request, ...only }),
    jobPage: async ({ limit = 50, signal: _, ...filter } = {}) =>
      (await store.reader()).jobPage({ ...filter, ...only, limit }),
    graph: async id => isoGraph(await (await store.reader()).graph(id)) as RemoteGraph,
    graphAt: async (id, at) =>
      isoGraphAt(await (await store.reader()).facts.graphAt(id, requireMoment(at))) as RemoteGraphAt,
    async compare(a, b, { atA, atB, diff } = {}) {
      const moments = { atA: ifGiven(atA), atB: ifGiven(atB) }
      return isoCompared(await (await store.reader()).compare(a, b, { ...moments, diff }))
    },
    why: async (id, { node, at } = {}) => (await store.reader()).why(id, { node, at: ifGiven(at) }),
    waits: async ({ signal: _, ...request } = {}) => (await store.reader()).waits({ ...request, ...only }),
    async factPage(id, { after, limit = 100 } = {}) {
      const { facts } = await store.reader()
      return facts.page(id, { ...factsAfter(after?.toString()), limit })
    },
    payload: async (id, seq, field) =>
      JSON.parse((await (await store.reader()).facts.payload(id, { seq, field })).text),
    durations: async ({ signal: _, ...filter } = {}) =>
      isoDurations(await (await store.reader()).durations({ ...filter, ...only })),
    nodeConfig: async (id, node, { attempt, item } = {}) =>
      (await store.reader()).facts.config(id, node, { attempt, item }),
    node: async (id, node, of) =>
      isoNodeDetails(await (await store.reader()).node(id, node, of)) as RemoteNodeDetails,
    async items(id, node, { at, after = -1, limit = 100 } = {}) {
      const reader = await store.reader()
      return (
        at === undefined
          ? isoItems(await reader.items(id, node, { after, limit }))
          : isoItemsAt(await reader.facts.itemsAt(id, node, { at: requireMoment(at), after, limit }))
      ) as RemoteItemPage
    },
    events: async id => (await (await store.reader()).events(id)).map(isoEvent),
    async *watch(id, { signal } = {}) {
      const reader = await store.reader()
      if (reader.isExclusive && !jobHasEnded((await reader.job(id)).status))
        throw store.noEngine(`Job ${id} waits`)
      for await (const event of reader.watch(id, signal === undefined ? {} : { signal }))
        yield isoEvent(event)
    },
    accept: (reference, input, { signal: _, ...options } = {}) =>
      store.asEngine(async umbra => {
        const { jobId, isNew } = await umbra.accept(reference, input, { ...options, ...only })
        return { ...(await umbra.job(jobId)), is_new: isNew }
      }),
    lineage: async (id, message, { signal: _, ...query } = {}) =>
      isoLineage(await (await store.pipelines()).lineage(id, message, query)),
    deadLetterPage: async (id, { signal: _, ...query } = {}) =>
      isoDeadLetters(await (await store.pipelines()).deadLetters(id, query)),
    replay: (id, { signal: _, ...which } = {}) =>
      store.asEngine(async umbra => {
        const { jobId, replayed } = await umbra.pipelines.replay(id, which)
        return { ...(await umbra.job(jobId)), replayed }
      }),
    acceptFork: (id, request = {}, { idempotencyKey } = {}) =>
      store.withHandlers(async umbra => {
        const { jobId, isNew } = await umbra.acceptFork(id, request, { idempotencyKey, ...only })
        return { ...(await umbra.job(jobId)), is_new: isNew }
      }),
    previewFork: (id, request) => store.withHandlers(umbra => umbra.previewFork(id, request, only)),
    cancel: (id, reason) => store.command(id, { type: "cancel", reason }),
    retry: id => store.command(id, { type: "retry" }),
    async delete(id) {
      await store.command(id, { type: "delete" })
    },
    signal: (id, name, data = null, options = {}) =>
      store.command(id, { type: "signal", name, data, by, ...options }),
    pause: (id, { reason } = {}) => store.command(id, { type: "pause", reason, by }),
    resume: id => store.command(id, { type: "resume", by }),
    reschedule: (id, start) => store.command(id, { type: "reschedule", by, ...startFields(start) }),
    describe: (id, { labels, note }) => store.command(id, { type: "describe", labels, note, by }),
  }
}

/** The process whose engine starts an operation runs it. The handlers of the command say what must be confirmed before a fork. */
function storeBulk(owner: string, store: Store): TargetBulk {
  const queries = async () => {
    const journal = await store.journal()
    return new BulkQueries({ journal, live: () => undefined, list: filter => journal.listJobs(filter) })
  }
  return {
    count: async request =>
      request.verb === "fork"
        ? store.withHandlers(umbra => umbra.bulk.count(request, { owner }))
        : (await queries()).count(request, { owner }),
    start: request =>
      request.verb === "fork"
        ? store.withHandlers(umbra => umbra.bulk.start(request, { owner }))
        : store.asEngine(umbra => umbra.bulk.start(request, { owner })),
    get: async id => (await queries()).get(id),
    list: ({ limit } = {}) =>
      entries(async (after?: string) => (await queries()).list({ owner, after, limit }), "operations"),
    refused: (id, { limit } = {}) =>
      entries(async (after?: string) => (await queries()).refusals(id, { after, limit }), "refused"),
    abort: id => store.asEngine(umbra => umbra.bulk.abort(id)),
  }
}

/** Only `run` and `backfill` need an engine. */
function storeSchedules(owner: string, store: Store): TargetSchedules {
  const requests = async () => {
    const journal = await store.journal()
    return new ScheduleRequests({
      journal,
      firing: { changed: partition => announceSchedule(journal, partition) },
      submit: (workflow, input, options) => store.asEngine(umbra => umbra.accept(workflow, input, options)),
      startBackfill: (...given) => store.asEngine(umbra => umbra.bulk.startBackfill(...given)),
      now: Date.now,
    })
  }
  return {
    put: async (name, document) => (await (await requests()).put(name, document, { owner })).schedule,
    get: async name => (await requests()).get(name, { owner }),
    list: ({ limit, fires } = {}) =>
      entries(async (after?: string) => (await requests()).list({ owner, after, limit, fires }), "schedules"),
    fires: (name, { limit } = {}) =>
      entries(async (before?: string) => (await requests()).fires(name, { owner, before, limit }), "fires"),
    ticks: (name, query) =>
      entries(async (after?: string) => (await requests()).ticks(name, { owner, after, ...query }), "ticks"),
    preview: async document => (await requests()).preview(document),
    pause: async name => (await requests()).pause(name, { owner }),
    resume: async name => (await requests()).resume(name, { owner }),
    run: async name => (await requests()).run(name, { owner }),
    previewBackfill: async (name, range) => (await requests()).previewBackfill(name, range, { owner }),
    backfill: async (name, request) => (await requests()).backfill(name, request, { owner }),
    delete: async name => (await requests()).delete(name, { owner }),
  }
}
