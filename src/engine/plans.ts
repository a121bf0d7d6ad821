import type { Submit } from "../core/commands.ts"
import { valueIn } from "../core/maps.ts"
import type { AdapterCatalog } from "../definition/adapter.ts"
import { bulkPlan, isBulkOperation } from "../definition/built-in.ts"
import type { HandlerCatalog } from "../definition/handler.ts"
import { compilation } from "../definition/index.ts"
import type { Plan } from "../definition/plan.ts"
import { UmbraError } from "../errors.ts"
import type { Journal, WorkflowRow } from "../journal/port/journal.ts"
import { inTurns } from "../turns.ts"

/** Compiled workflow versions. A version never changes, so a compiled plan stays valid. */
export class Plans {
  readonly #journal: Journal
  readonly #byVersion = new Map<string, Plan>()
  /** Compiling a large one takes a while: other callers wait for the same promise. */
  readonly #compiling = new Map<string, Promise<Plan>>()
  readonly #limit: number

  constructor(journal: Journal, limit = 1000) {
    this.#journal = journal
    this.#limit = limit
  }

  /** A promise only if it is not in memory. */
  get(owner: string, name: string, version: number): Plan | Promise<Plan> {
    const key = planKey(owner, name, version)
    const cached = this.#byVersion.get(key)
    if (cached !== undefined) return cached
    if (isBulkOperation({ workflow: name, workflowVersion: version })) return bulkPlan
    return valueIn(this.#compiling, key, () =>
      this.#read(owner, name, version).finally(() => this.#compiling.delete(key)),
    )
  }

  /** The plan of a job, by its submission. */
  ofJob(job: {
    readonly owner: string
    readonly workflow: string
    readonly workflow_version: number | null
    readonly definition?: string
  }): Plan | Promise<Plan> {
    const { owner, workflow, workflow_version: version, definition } = job
    return definition === undefined ? this.get(owner, workflow, version ?? 0) : this.ofDefinition(definition)
  }

  /** The plan of a job that is being submitted. A definition of its own is not stored yet. */
  async ofCommand({ owner, workflow, workflowVersion, definition }: Submit): Promise<Plan> {
    if (definition === undefined) return this.get(owner, workflow, workflowVersion)
    const cached = this.#byVersion.get(definitionKey(definition.hash))
    if (cached !== undefined) return cached
    const { hash, text, rules } = definition
    const plan = await compileStored({ name: hash, version: 0, definition: text, rules })
    return this.addDefinition(hash, plan)
  }

  /** The plan of a definition that is no version of its workflow. */
  async ofDefinition(hash: string): Promise<Plan> {
    const key = definitionKey(hash)
    const cached = this.#byVersion.get(key)
    if (cached !== undefined) return cached
    return valueIn(this.#compiling, key, () =>
      this.#readDefinition(hash).finally(() => this.#compiling.delete(key)),
    )
  }

  async #readDefinition(hash: string): Promise<Plan> {
    const row = await this.#journal.readDefinition(hash)
    if (row === null)
      throw new UmbraError("E305", `The definition ${hash} of a fork does not exist any more.`)
    return this.addDefinition(hash, await compileStored({ ...row, name: hash, version: 0 }))
  }

  addDefinition(hash: string, plan: Plan): Plan {
    return this.#add(definitionKey(hash), plan)
  }

  async #read(owner: string, name: string, version: number): Promise<Plan> {
    const row = await this.#journal.readWorkflow({ owner, name, version })
    if (row === null) throw new UmbraError("E305", `There is no version ${version} of workflow "${name}".`)
    return this.add(row, await compileStored(row))
  }

  add(row: { owner: string; name: string; version: number }, plan: Plan): Plan {
    return this.#add(planKey(row.owner, row.name, row.version), plan)
  }

  #add(key: string, plan: Plan): Plan {
    // Evicts the oldest: running jobs refer to their plan themselves.
    if (this.#byVersion.size >= this.#limit) this.#byVersion.delete(this.#byVersion.keys().next().value!)
    this.#byVersion.set(key, plan)
    return plan
  }
}

/** A stored version was validated when it was stored; it is not validated again against the handlers and adapters of this process. */
const anyHandler: HandlerCatalog = { get: name => ({ name }), names: () => [] }
const anyAdapter: AdapterCatalog = { get: type => ({ type }), types: () => [] }

async function compileStored(
  row: Pick<WorkflowRow, "name" | "version" | "definition" | "rules">,
): Promise<Plan> {
  const options = { handlers: anyHandler, adapters: anyAdapter, rules: row.rules }
  const compiled = await inTurns(compilation(JSON.parse(row.definition), options))
  if (compiled.plan !== undefined) return compiled.plan
  const problem = compiled.problems[0]
  throw new UmbraError(
    "E305",
    `Version ${row.version} of workflow "${row.name}" no longer compiles: ${problem?.message}`,
  )
}

const planKey = (owner: string, name: string, version: number) => `${owner}\u0000${name}\u0000${version}`

/** No version is 0. */
const definitionKey = (hash: string) => planKey("", hash, 0)
