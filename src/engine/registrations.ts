import type { AdapterCatalog } from "../definition/adapter.ts"
import type { Definition, Workflow } from "../definition/builder.ts"
import { compileWorkflow, type HandlerCatalog, type Plan } from "../definition/index.ts"
import { invalidWorkflow } from "../definition/problem.ts"
import type { Journal } from "../journal/port.ts"
import type { Plans } from "./plans.ts"
import { Versions } from "./versions.ts"

/** A workflow made with the builder, a definition, or the name of a stored one (`name`, `name@3`, `name@stable`). */
export type WorkflowSource = Workflow | Definition | string

export interface Registered {
  readonly name: string
  readonly version: number
  readonly hash: string
  /** The latest version has this content already. */
  readonly unchanged: boolean
}

export interface StoredPlan {
  readonly owner: string
  readonly name: string
  readonly version: number
  readonly plan: Plan
}

interface NewlyStored extends StoredPlan {
  readonly unchanged: boolean
}

/** What an object that was given as a workflow said at the time, and what was stored of it. */
interface Known {
  readonly text: string
  readonly byOwner: Map<string, Promise<NewlyStored>>
}

export interface RegistrationsParts {
  readonly journal: Journal
  readonly plans: Plans
  readonly handlers: HandlerCatalog
  readonly adapters?: AdapterCatalog
  readonly now: () => number
  /** Throws if the plan uses a provider that is not for jobs of this owner. */
  readonly mustBeFor?: (plan: Plan, owner: string) => void
  /** For aliases with weights. */
  readonly random?: () => number
}

/** From what is given as a workflow to the stored version that jobs run. */
export class Registrations {
  readonly #parts: RegistrationsParts
  /** Workflows given as objects are compiled and stored once, unless they have been changed since. */
  readonly #byObject = new WeakMap<object, Known>()
  readonly #versions: Versions

  constructor(parts: RegistrationsParts) {
    this.#parts = parts
    this.#versions = new Versions(parts.journal, parts.random)
  }

  async register(source: Exclude<WorkflowSource, string>, owner: string): Promise<Registered> {
    return registered(await this.#storeOnce(source, owner, true))
  }

  /** As `register`, for whoever has compiled it. */
  async registerPlan(plan: Plan, owner: string): Promise<Registered> {
    return registered(await this.#store(plan, owner))
  }

  /** What `register` would refuse for this owner alone. */
  check(plan: Plan, owner: string): void {
    this.#parts.mustBeFor?.(plan, owner)
  }

  resolve(source: WorkflowSource, owner: string): Promise<StoredPlan> {
    return typeof source === "string" ? this.#byName(source, owner) : this.#storeOnce(source, owner, false)
  }

  /** `again`: look at the store also when this very object was stored before. */
  #storeOnce(source: Exclude<WorkflowSource, string>, owner: string, again: boolean): Promise<NewlyStored> {
    const byOwner = this.#knownAs(source)
    let stored = again ? undefined : byOwner.get(owner)
    if (stored === undefined) {
      stored = this.#storeFamily(source, owner, again)
      byOwner.set(owner, stored)
      // What failed is tried anew, not remembered.
      stored.catch(() => byOwner.delete(owner))
    }
    return stored
  }

  /** What its nodes run first: a job may come to them at once. */
  async #storeFamily(
    source: Exclude<WorkflowSource, string>,
    owner: string,
    again: boolean,
  ): Promise<NewlyStored> {
    const plan = planOf(source, this.#parts)
    if (isMade(source)) for (const child of source.workflows ?? []) await this.#storeOnce(child, owner, again)
    return this.#store(plan, owner)
  }

  #knownAs(source: Exclude<WorkflowSource, string>): Known["byOwner"] {
    // What the builder made cannot be changed. A definition can; and what is no definition is refused by the compiler.
    const text = isMade(source) ? "" : textOf(source)
    if (text === null) return new Map()
    let known = this.#byObject.get(source)
    if (known?.text !== text) {
      known = { text, byOwner: new Map() }
      this.#byObject.set(source, known)
    }
    return known.byOwner
  }

  async #byName(reference: string, owner: string): Promise<StoredPlan> {
    const { name, version } = await this.#versions.resolve(owner, reference)
    return { owner, name, version, plan: await this.#parts.plans.get(owner, name, version) }
  }

  async #store(plan: Plan, owner: string): Promise<NewlyStored> {
    this.#parts.mustBeFor?.(plan, owner)
    const definition = JSON.stringify(plan.canonical)
    const row = await this.#parts.journal.putWorkflow({
      owner,
      name: plan.name,
      hash: plan.hash,
      definition,
      createdAt: this.#parts.now(),
    })
    this.#parts.plans.add(row, plan)
    return { owner, name: row.name, version: row.version, plan, unchanged: row.unchanged }
  }
}

function planOf(
  source: Exclude<WorkflowSource, string>,
  { handlers, adapters }: Pick<RegistrationsParts, "handlers" | "adapters">,
): Plan {
  const definition = isMade(source) ? source.definition : source
  const { plan, problems } = compileWorkflow(definition, {
    handlers,
    ...(adapters === undefined ? {} : { adapters }),
  })
  if (plan !== undefined) return plan
  const lines = problems.map(({ code, path, message }) => `  ${code} ${path}: ${message}`)
  throw invalidWorkflow(problems, `:\n${lines.join("\n")}`)
}

/** Made with the builder? Callers need not have types: what is given may be anything. */
function isMade(source: unknown): source is Workflow {
  return typeof source === "object" && source !== null && "definition" in source
}

/** null: this is no definition. */
function textOf(source: unknown): string | null {
  if (typeof source !== "object" || source === null) return null
  try {
    return JSON.stringify(source)
  } catch {
    return null
  }
}

function registered({ name, version, plan, unchanged }: NewlyStored): Registered {
  return { name, version, hash: plan.hash, unchanged }
}
