import { createHash } from "node:crypto"
import type { Submit } from "../core/commands.ts"
import type { Json } from "../core/json.ts"
import type { AdapterCatalog } from "../definition/adapter.ts"
import type { Definition, Workflow } from "../definition/builder.ts"
import {
  type CompileResult,
  checkInput,
  compileWorkflow,
  type HandlerCatalog,
  type Plan,
  type Problem,
} from "../definition/index.ts"
import { sortedCopy } from "../definition/json-value.ts"
import { UmbraError } from "../errors.ts"
import type { Journal } from "../journal/port.ts"
import { checkOptions } from "./arguments.ts"
import type { Hurry } from "./elsewhere.ts"
import type { Engine } from "./engine.ts"
import { anyExecution, type ClaimExecution } from "./execution-places.ts"
import type { Stored } from "./job-snapshot.ts"
import type { MustFit } from "./pipeline-needs.ts"
import { Versions } from "./versions.ts"

/** A workflow made with the builder, a definition, or the name of a stored one (`name`, `name@3`, `name@stable`). */
export type WorkflowSource = Workflow | Definition | string

export interface SubmitOptions {
  readonly owner?: string
  /** The same key gives the same job; the same key with other content is refused. */
  readonly idempotencyKey?: string
  /** Overrides the workflow's; null: never expires. */
  readonly ttlSeconds?: number | null
  /** Higher goes first. */
  readonly priority?: number
  readonly labels?: { readonly [key: string]: string }
  /** W3C Trace Context of whoever submits: the job's spans belong to that trace. */
  readonly traceparent?: string
  /** By whose API token or JWT, for limits that count such jobs. */
  readonly submittedBy?: string
}

/** Whether a job that is new may be stored; one that is there already is nobody's question. */
export type Admit = (jobId: string, store: () => Promise<void>) => Promise<void>

export interface Submitted {
  readonly jobId: string
  /** false: the idempotency key was used before, and this is that job. */
  readonly isNew: boolean
  /** A new job, when it was. */
  readonly stored: Stored | null
}

export interface Registered {
  readonly name: string
  readonly version: number
  readonly hash: string
  /** The latest version has this content already. */
  readonly unchanged: boolean
}

interface StoredPlan {
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

/** The way in: from a workflow and an input to a durable job. */
export class Submissions {
  readonly #journal: Journal
  readonly #engine: Engine
  readonly #handlers: HandlerCatalog
  readonly #adapters: AdapterCatalog | undefined
  readonly #claimExecution: ClaimExecution
  readonly #mustFit: MustFit
  readonly #ttlSeconds: number | null
  readonly #now: () => number
  /** Workflows given as objects are compiled and stored once, unless they have been changed since. */
  readonly #byObject = new WeakMap<object, Known>()
  readonly #turns = new Map<string, Promise<Submitted>>()
  readonly #versions: Versions

  constructor(parts: {
    journal: Journal
    engine: Engine
    handlers: HandlerCatalog
    adapters?: AdapterCatalog
    claimExecution?: ClaimExecution
    mustFit?: MustFit
    ttlSeconds: number | null
    now: () => number
    /** For aliases with weights. */
    random?: () => number
  }) {
    this.#now = parts.now
    this.#journal = parts.journal
    this.#versions = new Versions(parts.journal, parts.random)
    this.#engine = parts.engine
    this.#handlers = parts.handlers
    this.#adapters = parts.adapters
    this.#claimExecution = parts.claimExecution ?? anyExecution
    this.#mustFit = parts.mustFit ?? (() => {})
    this.#ttlSeconds = parts.ttlSeconds
  }

  async submit(
    source: WorkflowSource,
    input: unknown,
    options: SubmitOptions & { owner: string },
    admit: Admit = (_, store) => store(),
  ): Promise<Submitted> {
    this.#engine.mustBeOpen()
    checkOptions(options)
    const stored = await this.#resolve(source, options.owner)
    this.#mustFit(stored.plan)
    const checked = checkSubmission(stored.plan, input)
    await this.#engine.whenReady()
    const command = this.#command(stored, checked, options)
    if (options.idempotencyKey !== undefined)
      return this.#inTurn(JSON.stringify([options.owner, options.idempotencyKey]), async () => {
        const content =
          typeof source === "string" ? [source, input ?? null] : [stored.name, stored.version, checked]
        const jobId = await this.#claim(content, options)
        if (await this.#exists(jobId)) return { jobId, isNew: false, stored: null }
        return this.#admitted(jobId, { plan: stored.plan, admit }, () =>
          this.#engine.requests.submitOnce(jobId, stored.plan, command),
        )
      })
    const asNew = (hurry?: Hurry) => {
      const jobId = this.#engine.newJobId()
      const store = () => this.#engine.requests.submit(jobId, stored.plan, command, hurry)
      return this.#admitted(jobId, { plan: stored.plan, admit }, store)
    }
    // Nobody has been told the id: if its engine does not answer, another has the job under another id.
    return asNew("hurry").catch(error => (isUnanswered(error) ? asNew() : Promise.reject(error)))
  }

  async #admitted(
    jobId: string,
    { plan, admit }: { plan: Plan; admit: Admit },
    store: () => Promise<Stored | null>,
  ): Promise<Submitted> {
    let stored: Stored | null = null
    let isRefused = true
    const giveBack = plan.pipeline === null ? null : await this.#claimExecution(jobId)
    try {
      await admit(jobId, async () => {
        isRefused = false
        stored = await store()
      })
    } catch (error) {
      // Whether a job that was sent to the store is there nobody knows; one that was not needs no place.
      if (isRefused) await giveBack?.()
      throw error
    }
    return { jobId, isNew: stored !== null, stored }
  }

  #command(stored: StoredPlan, input: Json, options: SubmitOptions & { owner: string }): Submit {
    return {
      type: "submit",
      owner: options.owner,
      workflow: stored.name,
      workflowVersion: stored.version,
      input,
      ttlSeconds:
        options.ttlSeconds === undefined ? (stored.plan.ttlSeconds ?? this.#ttlSeconds) : options.ttlSeconds,
      priority: options.priority ?? 0,
      ...(options.labels === undefined ? {} : { labels: { ...options.labels } }),
      ...(options.traceparent === undefined ? {} : { traceparent: options.traceparent }),
      ...(options.submittedBy === undefined ? {} : { submittedBy: options.submittedBy }),
    }
  }

  /** One at a time per key: of two that come together, the second must find the first one's job. */
  async #inTurn(key: string, submit: () => Promise<Submitted>): Promise<Submitted> {
    const turn = (this.#turns.get(key) ?? Promise.resolve()).then(submit, submit)
    this.#turns.set(key, turn)
    try {
      return await turn
    } finally {
      if (this.#turns.get(key) === turn) this.#turns.delete(key)
    }
  }

  async register(source: Exclude<WorkflowSource, string>, owner: string): Promise<Registered> {
    return registered(await this.#storeOnce(source, owner, true))
  }

  /** As `register`, for whoever has compiled it. */
  async registerPlan(plan: Plan, owner: string): Promise<Registered> {
    return registered(await this.#store(plan, owner))
  }

  #resolve(source: WorkflowSource, owner: string): Promise<StoredPlan> {
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
    const plan = planOf(source, { handlers: this.#handlers, adapters: this.#adapters })
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
    return { owner, name, version, plan: await this.#engine.plans.get(owner, name, version) }
  }

  async #store(plan: Plan, owner: string): Promise<NewlyStored> {
    const definition = JSON.stringify(plan.canonical)
    const row = await this.#journal.putWorkflow({
      owner,
      name: plan.name,
      hash: plan.hash,
      definition,
      createdAt: this.#now(),
    })
    this.#engine.plans.add(row, plan)
    return { owner, name: row.name, version: row.version, plan, unchanged: row.unchanged }
  }

  /**
   * The first to come with a key decides the job's id; the others get it. A name is compared as it was written: between
   * two sendings of one submission an alias may have moved. The order of keys says nothing.
   */
  async #claim(submitted: readonly unknown[], options: SubmitOptions & { owner: string }): Promise<string> {
    const { owner, idempotencyKey } = options
    const content = [...submitted, options.labels ?? {}, options.priority ?? 0, options.ttlSeconds ?? null]
    const fingerprint = createHash("sha256")
      .update(JSON.stringify(sortedCopy(content)))
      .digest("hex")
    const claim = {
      owner,
      key: idempotencyKey!,
      jobId: this.#engine.newJobId(),
      fingerprint,
      createdAt: this.#now(),
    }
    const winner = await this.#journal.claimKey(claim)
    if (winner.fingerprint !== fingerprint)
      throw new UmbraError(
        "E306",
        `Idempotency key "${idempotencyKey}" was used for another submission (job ${winner.jobId}). Use a new key for new content.`,
      )
    return winner.jobId
  }

  /** Of one that another process has just asked for here, once it is durable: nobody is told of it before. */
  async #exists(id: string): Promise<boolean> {
    const live = this.#engine.live(id)
    if (live === undefined) return (await this.#journal.readJob(id)) !== null
    await this.#engine.owner.committer.durable(live)
    return true
  }
}

function planOf(
  source: Exclude<WorkflowSource, string>,
  { handlers, adapters }: { handlers: HandlerCatalog; adapters: AdapterCatalog | undefined },
): Plan {
  const definition = isMade(source) ? source.definition : source
  return planOrThrow(
    compileWorkflow(definition, { handlers, ...(adapters === undefined ? {} : { adapters }) }),
  )
}

/** The submission was taken back. */
function isUnanswered(error: unknown): boolean {
  return error instanceof UmbraError && error.code === "E613"
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

function planOrThrow(compiled: CompileResult): Plan {
  if (compiled.plan !== undefined) return compiled.plan
  throw invalidWorkflow(compiled.problems)
}

function invalidWorkflow(problems: readonly Problem[]): UmbraError {
  const lines = problems.map(({ code, path, message }) => `  ${code} ${path}: ${message}`)
  return new UmbraError(
    problems[0]?.code ?? "E101",
    `The workflow has ${lines.length === 1 ? "a problem" : `${lines.length} problems`}:\n${lines.join("\n")}`,
    { details: { problems } },
  )
}

function registered({ name, version, plan, unchanged }: NewlyStored): Registered {
  return { name, version, hash: plan.hash, unchanged }
}

/** The input, checked and a copy of its own. */
export function checkSubmission(plan: Plan, input: unknown): Json {
  const { value, problems } = checkInput(plan.input, input)
  // A copy: the caller may go on with its own, the job's input stays as the journal has it.
  if (problems === undefined) return JSON.parse(JSON.stringify(value)) as Json
  const text = problems.map(problem => `${problem.path}: ${problem.message}`).join("; ")
  throw new UmbraError("E304", `The input does not fit workflow "${plan.name}": ${text}`, {
    details: { problems },
  })
}
