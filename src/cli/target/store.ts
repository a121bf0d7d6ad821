/**
 * A folder or a database as the target of a command. This process opens only as much as it needs: for queries the
 * journal alone, which disturbs no other process; for a command to a job, the engine that owns the job. If there is none
 * (always so for a folder, which one process holds at a time), this process becomes an engine that runs no node.
 */

import { pages } from "../../client/pages.ts"
import type { Weights } from "../../client/types.ts"
import { localOwner } from "../../core/facts.ts"
import { loadWorkflow } from "../../definition/index.ts"
import { invalidWorkflow } from "../../definition/problem.ts"
import { Plans } from "../../engine/plans.ts"
import { deleteAlias, moveAlias } from "../../jobs/aliases.ts"
import { noSuchJob } from "../../jobs/arguments.ts"
import type { Queries } from "../../jobs/queries.ts"
import { Reader } from "../../jobs/reader.ts"
import { type Registered, Registrations } from "../../jobs/register.ts"
import {
  aliasHistory,
  deleteWorkflow,
  versionPage,
  workflowPage,
  workflowWithAliases,
} from "../../jobs/workflows.ts"
import { openJournal } from "../../journal/open.ts"
import type { Journal } from "../../journal/port/journal.ts"
import type { Registry } from "../../journal/port/registry.ts"
import { PipelineQueries } from "../../pipeline/queries.ts"
import { Tokens, tokenView } from "../../server/auth/tokens.ts"
import { limitsOf } from "../../server/http/limits.ts"
import { openUmbra, type Umbra, type UmbraOptions } from "../../umbra.ts"
import { workerSettings } from "../../worker/settings.ts"
import { adaptersFor, catalogWith, loadHandlers, type Modules } from "../input/modules.ts"
import { storeFlags, storeName } from "../input/store.ts"
import { commandLog } from "../output/log.ts"
import { StoreJobs } from "./store-jobs.ts"
import type { Target, TargetOptions, TargetWorkflows } from "./target.ts"

export function openStore(location: string, options: TargetOptions): Target {
  const { owner = localOwner } = options
  const store = new Store(location)
  const jobs = new StoreJobs(store, options.owner)
  return {
    name: storeName(location),
    flags: storeFlags(options),
    jobs,
    workflows: storeWorkflows(store, owner),
    async compiledGraph({ owner, workflow: name, workflow_version: version }) {
      return (await store.reader()).facts.compiledGraph({ owner, name, version })
    },
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

/** One store, opened once. */
export class Store {
  readonly location: string
  #journal: Promise<Journal> | null = null
  #engine: Promise<Umbra> | null = null
  #messenger: Promise<Umbra> | null = null
  #isHandedOver = false

  constructor(location: string) {
    this.location = location
  }

  journal(): Promise<Journal> {
    this.#journal ??= openJournal(this.location, { log: commandLog("warn").log })
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
    return new PipelineQueries({ store: journal.pipelines, plans, row })
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
    const options: UmbraOptions = { roles: ["engine"], runsPipelines: false, log: commandLog("error").log }
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

const PAGE = 200

/** Workflows of one owner. */
function storeWorkflows(store: Store, owner: string): TargetWorkflows {
  const by = "local"
  return {
    async get(name, { version } = {}) {
      const journal = await store.journal()
      const workflows = { registry: journal.registry, workflow: journal.readWorkflow.bind(journal) }
      return workflowWithAliases(workflows, { owner, name, version })
    },
    async *list() {
      const registry = await store.registry()
      const ask = (after?: string) => workflowPage(registry, { owner, after, limit: PAGE })
      for await (const { workflows } of pages(ask)) yield* workflows
    },
    async *versions(name) {
      const registry = await store.registry()
      const ask = (before?: number) => versionPage(registry, { owner, name, before, limit: PAGE })
      for await (const { versions } of pages(ask)) yield* versions
    },
    async setAlias(name, alias, target: number | Weights) {
      const weights = typeof target === "number" ? { [target]: 1 } : target
      const targets = Object.entries(weights).map(([version, weight]) => ({
        version: Number(version),
        weight,
      }))
      return moveAlias(await store.registry(), { owner, name, alias, targets, by })
    },
    async deleteAlias(name, alias) {
      await deleteAlias(await store.registry(), { owner, name, alias, by })
    },
    async aliasHistory(name, alias) {
      return (await aliasHistory(await store.registry(), { owner, name, alias })).moves
    },
    async delete(name) {
      await deleteWorkflow(await store.registry(), { owner, name, by })
    },
  }
}
