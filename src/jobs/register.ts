import type { AdapterCatalog } from "../definition/adapter.ts"
import {
  type CompileResult,
  compilation,
  type HandlerCatalog,
  loadInTurns,
  type Plan,
} from "../definition/index.ts"
import { invalidWorkflow } from "../definition/problem.ts"
import type { Definition, Workflow } from "../definition/typed/builder.ts"
import type { Plans } from "../engine/plans.ts"
import { Versions } from "../engine/versions.ts"
import type { Journal } from "../journal/port/journal.ts"
import { inTurns } from "../turns.ts"

/** A workflow made with the builder, a definition, or the name of a stored one (`name`, `name@3`, `name@stable`). */
export type WorkflowSource = Workflow | Definition | string

/** A document as text, YAML or JSON. A separate class: code that passes on names received from others never stores a document by mistake. */
export class WorkflowText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** A name never contains a line break; a document without one is JSON or YAML in braces. */
function isWorkflowText(source: string): boolean {
  return source.includes("\n") || source.trimStart().startsWith("{")
}

type GivenWorkflow = Exclude<WorkflowSource, string> | WorkflowText

/** The number of texts whose version is cached: submitted again they are not compiled again. */
const CACHED_TEXTS = 100

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

/** The content of an object that was given as a workflow at that time, and the version that was stored. */
interface CachedWorkflow {
  readonly text: string
  /** The same as a list; null: it is not only plain data. */
  readonly content: readonly unknown[] | null
  readonly byOwner: Map<string, Promise<NewlyStored>>
}

export interface RegistrationsParts {
  readonly journal: Journal
  readonly plans: Plans
  readonly handlers: HandlerCatalog
  readonly adapters?: AdapterCatalog | undefined
  readonly now: () => number
  /** Throws if the plan uses a provider that is not for jobs of this owner. */
  readonly mustBeFor?: (plan: Plan, owner: string) => void
  /** For aliases with weights. */
  readonly random?: () => number
}

/** Resolves a given workflow to the stored version that jobs run. */
export class Registrations {
  readonly #parts: RegistrationsParts
  /** Workflows given as objects are compiled and stored once, unless they have been changed since. */
  readonly #byObject = new WeakMap<object, CachedWorkflow>()
  readonly #texts = new Map<string, WorkflowText>()
  readonly #versions: Versions

  constructor(parts: RegistrationsParts) {
    this.#parts = parts
    this.#versions = new Versions(parts.journal, parts.random)
  }

  /** Returns the same object for the same text. */
  text(text: string): WorkflowText {
    const known = this.#texts.get(text)
    if (known !== undefined) return known
    if (this.#texts.size >= CACHED_TEXTS) this.#texts.clear()
    const added = new WorkflowText(text)
    this.#texts.set(text, added)
    return added
  }

  /** A workflow as a caller gave it: a text with a line break, or in braces, is a document, every other one a name. */
  source(workflow: WorkflowSource): WorkflowSource | WorkflowText {
    return typeof workflow === "string" && isWorkflowText(workflow) ? this.text(workflow) : workflow
  }

  async register(source: GivenWorkflow, owner: string): Promise<Registered> {
    return registered(await this.#storeOnce(source, owner, true))
  }

  /** As `register`, for a caller that has already compiled it. */
  async registerPlan(plan: Plan, owner: string, pushedBy: string): Promise<Registered> {
    return registered(await this.#store(plan, owner, pushedBy))
  }

  /** Compiles a definition that is not stored as a version, with the checks of one that is. */
  async compile(source: GivenWorkflow, owner: string, handlers = this.#parts.handlers): Promise<Plan> {
    const { adapters } = this.#parts
    const plan = await compilePlan(source, { handlers, adapters })
    this.#parts.mustBeFor?.(plan, owner)
    if (isBuilt(source))
      for (const child of source.workflows ?? []) await this.#storeOnce(child, owner, false)
    return plan
  }

  /** Throws what `register` would refuse for this owner alone. */
  check(plan: Plan, owner: string): void {
    this.#parts.mustBeFor?.(plan, owner)
  }

  resolve(source: WorkflowSource | WorkflowText, owner: string): Promise<StoredPlan> {
    return typeof source === "string" ? this.#byName(source, owner) : this.#storeOnce(source, owner, false)
  }

  /** `again`: read the store even if this same object was stored before. */
  #storeOnce(source: GivenWorkflow, owner: string, again: boolean): Promise<NewlyStored> {
    const byOwner = this.#cachedVersions(source)
    let stored = again ? undefined : byOwner.get(owner)
    if (stored === undefined) {
      stored = this.#storeFamily(source, owner, again)
      byOwner.set(owner, stored)
      // A failure is not cached: the next call tries again.
      stored.catch(() => byOwner.delete(owner))
    }
    return stored
  }

  /** Stores the workflows that its nodes run first: a job may reach them at once. */
  async #storeFamily(source: GivenWorkflow, owner: string, again: boolean): Promise<NewlyStored> {
    const plan = await compilePlan(source, this.#parts)
    if (isBuilt(source))
      for (const child of source.workflows ?? []) await this.#storeOnce(child, owner, again)
    return this.#store(plan, owner)
  }

  #cachedVersions(source: GivenWorkflow): CachedWorkflow["byOwner"] {
    let known = this.#byObject.get(source)
    if (known !== undefined && known.content !== null && matchContent(source, known.content) !== -1)
      return known.byOwner
    // A workflow of the builder, or a text, cannot change. A definition can; the compiler rejects anything else.
    const canChange = !(isBuilt(source) || source instanceof WorkflowText)
    const text = canChange ? definitionText(source) : ""
    if (text === null) return new Map()
    if (known?.text !== text) {
      const content: unknown[] = []
      const isPlain = canChange && addContent(source, content)
      known = { text, content: isPlain ? content : null, byOwner: new Map() }
      this.#byObject.set(source, known)
    }
    return known.byOwner
  }

  #byName(reference: string, owner: string): Promise<StoredPlan> {
    return this.#versions.resolve(owner, reference).then(({ name, version }) => {
      const plan = this.#parts.plans.get(owner, name, version)
      if (!(plan instanceof Promise)) return { owner, name, version, plan }
      return plan.then(compiled => ({ owner, name, version, plan: compiled }))
    })
  }

  async #store(plan: Plan, owner: string, pushedBy = "local"): Promise<NewlyStored> {
    this.#parts.mustBeFor?.(plan, owner)
    const definition = JSON.stringify(plan.document)
    const row = await this.#parts.journal.putWorkflow({
      owner,
      name: plan.name,
      hash: plan.hash,
      definition,
      createdAt: this.#parts.now(),
      pushedBy,
      rules: plan.rules,
    })
    const { name, version, unchanged } = row
    const { plans } = this.#parts
    // A version that was stored under earlier rules keeps them, even if the same content is pushed again.
    const inForce = row.rules === plan.rules ? plans.add(row, plan) : await plans.get(owner, name, version)
    return { owner, name, version, plan: inForce, unchanged }
  }
}

const problemsInMessage = 100

async function compilePlan(
  source: GivenWorkflow,
  { handlers, adapters }: Pick<RegistrationsParts, "handlers" | "adapters">,
): Promise<Plan> {
  const options = { handlers, adapters }
  const { plan, problems } = await withFreshNames(handlers, async () =>
    source instanceof WorkflowText
      ? loadInTurns(source.text, options)
      : inTurns(compilation(isBuilt(source) ? source.definition : source, options)),
  )
  if (plan !== undefined) return plan
  const lines = problems.slice(0, problemsInMessage).map(({ code, path, message, line, column }) => {
    const place = line === undefined ? path : `${line}:${column} ${path}`
    return `  ${code} ${place.trim()}: ${message}`
  })
  if (problems.length > lines.length) lines.push(`  and ${problems.length - lines.length} more`)
  throw invalidWorkflow(problems, { end: `:\n${lines.join("\n")}` })
}

/** Compiles again if a name is unknown that a worker may have reported since the catalog was read. */
export async function withFreshNames(
  handlers: HandlerCatalog,
  compile: () => Promise<CompileResult>,
): Promise<CompileResult> {
  const compiled = await compile()
  if (!compiled.problems?.some(({ code }) => code === "E103")) return compiled
  return (await handlers.refresh?.()) ? compile() : compiled
}

/** Made with the builder? Callers may lack types: the argument may be anything. */
function isBuilt(source: unknown): source is Workflow {
  return typeof source === "object" && source !== null && "definition" in source
}

/** null: this is not a definition. */
function definitionText(source: unknown): string | null {
  if (typeof source !== "object" || source === null) return null
  try {
    return JSON.stringify(source)
  } catch {
    return null
  }
}

const [LIST, MAPPING, END] = [Symbol("list"), Symbol("mapping"), Symbol("end")]

/** Adds the content of a value as a list of keys and values. false: it has objects that are not plain. */
function addContent(value: unknown, content: unknown[]): boolean {
  if (typeof value !== "object" || value === null) {
    content.push(value)
    return true
  }
  if (Array.isArray(value)) {
    content.push(LIST, value.length)
    return value.every(item => addContent(item, content))
  }
  if (!isPlainObject(value)) return false
  content.push(MAPPING)
  for (const key in value) {
    content.push(key)
    if (!addContent(value[key], content)) return false
  }
  content.push(END)
  return true
}

/**
 * Compares a value with such a list from `at` on: a submission needs this for each object that it is given, and it takes a
 * quarter of the time that the text of the object takes. Returns where its content ends; -1: it has changed.
 */
function matchContent(value: unknown, content: readonly unknown[], at = 0): number {
  if (typeof value !== "object" || value === null)
    return at < content.length && content[at] === value ? at + 1 : -1
  let next: number
  if (Array.isArray(value)) {
    if (content[at] !== LIST || content[at + 1] !== value.length) return -1
    next = at + 2
    for (let i = 0; i < value.length && next !== -1; i++) next = matchContent(value[i], content, next)
    return next
  }
  if (content[at] !== MAPPING || !isPlainObject(value)) return -1
  next = at + 1
  for (const key in value) {
    if (content[next] !== key) return -1
    next = matchContent(value[key], content, next + 1)
    if (next === -1) return -1
  }
  return content[next] === END ? next + 1 : -1
}

function isPlainObject(value: object): value is Record<string, unknown> {
  const prototype = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

function registered({ name, version, plan, unchanged }: NewlyStored): Registered {
  return { name, version, hash: plan.hash, unchanged }
}
