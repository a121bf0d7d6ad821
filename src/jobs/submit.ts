import { createHash } from "node:crypto"
import { artifactsInValue } from "../core/artifacts.ts"
import type { Submit } from "../core/commands.ts"
import type { Json } from "../core/json.ts"
import type { RetryPolicy } from "../core/plan.ts"
import { sortedCopy } from "../definition/document/json-value.ts"
import { type CheckedRequest, checkSubmission, type Plan } from "../definition/index.ts"
import type { MustFit } from "../engine/dispatch/pipeline-needs.ts"
import type { Engine } from "../engine/engine.ts"
import { JobArtifacts } from "../engine/owner/job-artifacts.ts"
import type { Stored } from "../engine/owner/snapshot.ts"
import { anyExecution, type ClaimExecution } from "../engine/pipeline-places.ts"
import { UmbraError } from "../errors.ts"
import type { KeyClaim } from "../journal/port/journal.ts"
import { traceTick } from "../trace.ts"
import { checkOptions, hasStart, type StartOptions, startFields } from "./arguments.ts"
import type { ForksParts } from "./fork/forks.ts"
import {
  Registrations,
  type RegistrationsParts,
  type StoredPlan,
  type WorkflowSource,
  type WorkflowText,
} from "./register.ts"
import { type Accepted, BulkSubmission, type NewSubmission } from "./submit-many.ts"

export interface SubmitOptions extends StartOptions {
  readonly owner?: string
  /** The same key gives the same job; the same key with other content is refused. */
  readonly idempotencyKey?: string | undefined
  /** Overrides the workflow's; null: the job never expires. */
  readonly ttlSeconds?: number | null | undefined
  /** Higher goes first. */
  readonly priority?: number | undefined
  readonly labels?: { readonly [key: string]: string } | undefined
  /** W3C Trace Context of the caller: the job's spans belong to that trace. */
  readonly traceparent?: string | undefined
  /** The API token or JWT subject of the caller, for limits that count such jobs. */
  readonly submittedBy?: string | undefined
}

/** Options of submissions by the server. */
export interface AcceptOptions extends SubmitOptions {
  /** Submissions of one request share the time limit for checking their inputs. */
  readonly request?: CheckedRequest | undefined
}

export interface KeyedOptions extends SubmitOptions {
  readonly owner: string
  readonly idempotencyKey: string
}

/** Decides whether a new job may be stored; not called for a job that exists already. */
export type Admit = (jobId: string, store: () => Promise<void>) => Promise<void>

export interface Submitted {
  readonly jobId: string
  /** false: the idempotency key was used before, and this is that job. */
  readonly isNew: boolean
  /** Set for a new job. */
  readonly stored: Stored | null
}

export interface SubmissionsParts extends Omit<RegistrationsParts, "plans"> {
  readonly engine: Engine
  readonly claimExecution?: ClaimExecution
  readonly mustFit?: MustFit
  readonly ttlSeconds: number | null
  readonly retryDefaults?: RetryPolicy | undefined
}

/** Turns a workflow and an input into a durable job. */
export class Submissions {
  readonly #parts: SubmissionsParts
  readonly #turns = new Map<string, Promise<Submitted>>()
  readonly registrations: Registrations
  readonly #artifacts: JobArtifacts

  constructor(parts: SubmissionsParts) {
    this.#parts = parts
    this.registrations = new Registrations({ ...parts, plans: parts.engine.plans })
    this.#artifacts = new JobArtifacts(parts.journal, parts.now)
  }

  async submit(
    source: WorkflowSource | WorkflowText,
    input: unknown,
    options: AcceptOptions & { owner: string },
    admit?: Admit,
  ): Promise<Submitted> {
    const stored = await this.#resolve(source, options)
    this.#mustFit(stored, options)
    const checking = this.#check(stored.plan, input, options)
    const checked = checking instanceof Promise ? await checking : checking
    if (options.idempotencyKey === undefined) return this.#submitNew(stored, checked, options, admit)
    const content =
      typeof source === "string" ? [source, input ?? null] : [stored.name, stored.version, checked]
    return this.#submitKeyed(stored, { input: checked, content }, options, admit)
  }

  /** As `submit`, for a plan that is in no registry. `content`: what submissions with the same key have in common. */
  async submitBuiltIn(
    stored: StoredPlan,
    given: { readonly input: Json; readonly content: readonly Json[] },
    options: SubmitOptions & { owner: string },
    admit?: Admit,
  ): Promise<Submitted> {
    this.#parts.engine.mustBeOpen()
    checkOptions(options)
    await this.#artifacts.check(options.owner, given.input)
    return options.idempotencyKey === undefined
      ? this.#submitNew(stored, given.input, options, admit)
      : this.#submitKeyed(stored, given, options, admit)
  }

  async #submitKeyed(
    stored: StoredPlan,
    { input, content }: { readonly input: Json; readonly content: readonly unknown[] },
    options: SubmitOptions & { owner: string },
    admit: Admit | undefined,
  ): Promise<Submitted> {
    const { engine } = this.#parts
    if (!engine.takesJobs) await engine.whenReady()
    const { plan } = stored
    const command = this.#command(stored, input, options)
    return this.#serialize(JSON.stringify([options.owner, options.idempotencyKey]), async () => {
      const jobId = await this.#claim(content, options)
      if (await this.#exists(jobId)) return { jobId, isNew: false, stored: null }
      return this.#admitted(jobId, { plan, admit }, () => engine.commands.submitOnce(jobId, plan, command))
    })
  }

  async #submitNew(
    stored: StoredPlan,
    input: Json,
    options: SubmitOptions & { owner: string },
    admit: Admit | undefined,
  ): Promise<Submitted> {
    const { engine } = this.#parts
    if (!engine.takesJobs) await engine.whenReady()
    const { plan } = stored
    const command = this.#command(stored, input, options)
    const jobId = engine.newJobId()
    try {
      if (plan.pipeline !== null || admit !== undefined)
        return await this.#admitted(jobId, { plan, admit }, () =>
          engine.commands.submit(jobId, plan, command, "hurry"),
        )
      return { jobId, isNew: true, stored: await engine.commands.submit(jobId, plan, command, "hurry") }
    } catch (error) {
      // The id has not been returned yet: if its engine does not answer, another engine gets the job under another id.
      if (!isUnanswered(error)) throw error
      const other = engine.newJobId()
      return this.#admitted(other, { plan, admit }, () => engine.commands.submit(other, plan, command))
    }
  }

  /** As `submit`, under an id that follows from the cause of the job: a repetition finds the job, and `input` is not called. */
  async submitOnce(
    jobId: string,
    source: string,
    input: () => Json | undefined,
    {
      schedule,
      operation,
      ...options
    }: SubmitOptions & { owner: string } & Pick<Submit, "schedule" | "operation">,
    admit?: Admit,
  ): Promise<Submitted> {
    const { engine } = this.#parts
    if (!engine.takesJobs) await engine.whenReady()
    if (await this.#exists(jobId)) return { jobId, isNew: false, stored: null }
    const stored = await this.#resolve(source, options)
    this.#mustFit(stored, options)
    const { plan } = stored
    const checked = await this.#check(plan, input(), options)
    const { name: workflow } = stored
    const traceparent =
      schedule && traceTick({ jobId, workflow, schedule: schedule.name, tick: schedule.tick })
    const command: Submit = {
      ...this.#command(stored, checked, { ...options, traceparent }),
      schedule,
      operation,
    }
    return this.#admitted(jobId, { plan, admit }, () => engine.commands.submitOnce(jobId, plan, command))
  }

  /** Submits many jobs, each accepted or refused for itself. `admit`: absent if no limit applies to them. */
  submitMany(entries: Iterable<NewSubmission>, admit?: Admit): Promise<Accepted[]> {
    const { engine } = this.#parts
    return new BulkSubmission({
      engine,
      resolve: async ({ workflow, options }) => {
        const stored = await this.#resolve(workflow, options)
        this.#mustFit(stored, options)
        return stored
      },
      command: ({ input, options }, stored) => {
        const checked = this.#check(stored.plan, input, options)
        return checked instanceof Promise
          ? checked.then(value => this.#command(stored, value, options))
          : this.#command(stored, checked, options)
      },
      isApart: ({ options }, { pipeline }) =>
        admit !== undefined || pipeline !== null || options.idempotencyKey !== undefined,
      submitApart: ({ workflow, input, options }) => this.submit(workflow, input, options, admit),
    }).submit(entries)
  }

  /** The job of an earlier request with the same key and content; throws E306 if its content was another. */
  async findRepeated(content: readonly unknown[], options: KeyedOptions): Promise<Submitted | null> {
    this.#parts.engine.mustBeOpen()
    checkOptions(options)
    const { owner, idempotencyKey: key } = options
    const claim = await this.#parts.journal.readKey({ owner, key })
    if (claim === null) return null
    mustBeSameContent(claim, computeFingerprint(content, options))
    const { jobId } = claim
    return (await this.#exists(jobId)) ? { jobId, isNew: false, stored: null } : null
  }

  /** Submits a fork in the partition of its origin. `content`: the submission that the idempotency key identifies. */
  async submitFork({
    plan,
    partition,
    id: fixedId,
    command: given,
    content,
    options,
    admit,
  }: Parameters<ForksParts["submit"]>[0]): Promise<Submitted> {
    const { engine, mustFit, retryDefaults } = this.#parts
    engine.mustBeOpen()
    checkOptions({ ...options, labels: given.labels })
    mustFit?.(plan, options.owner)
    await this.#artifacts.check(options.owner, [given.input, ...(given.pinned ?? [])])
    if (!engine.takesJobs) await engine.whenReady()
    if (given.definition !== undefined) engine.plans.addDefinition(given.definition.hash, plan)
    const command: Submit = {
      ...given,
      retryDefaults,
      ...engine.pauses.fields(options.owner, plan.name),
    }
    const jobId = fixedId ?? engine.newJobIdIn(partition)
    const store = (id: string) =>
      this.#admitted(id, { plan, admit }, () => engine.commands.submitFork(id, plan, command))
    if (options.idempotencyKey === undefined) return store(jobId)
    return this.#serialize(JSON.stringify([options.owner, options.idempotencyKey]), async () => {
      const claimed = await this.#claim(content, options, jobId)
      return (await this.#exists(claimed)) ? { jobId: claimed, isNew: false, stored: null } : store(claimed)
    })
  }

  #resolve(
    source: WorkflowSource | WorkflowText,
    options: AcceptOptions & { owner: string },
  ): Promise<StoredPlan> {
    this.#parts.engine.mustBeOpen()
    checkOptions(options)
    return this.registrations.resolve(source, options.owner)
  }

  /** Returns a promise only if the schema needs one, or the input refers to artifacts. */
  #check(plan: Plan, input: unknown, options: AcceptOptions & { owner: string }): Json | Promise<Json> {
    const checked = checkSubmission(plan, input, options)
    if (checked instanceof Promise) return checked.then(value => this.#withArtifacts(value, options.owner))
    return this.#withArtifacts(checked, options.owner)
  }

  #withArtifacts(input: Json, owner: string): Json | Promise<Json> {
    const hashes = artifactsInValue(input)
    return hashes.length === 0 ? input : this.#artifacts.check(owner, input).then(() => input)
  }

  #mustFit({ plan }: StoredPlan, { owner }: { readonly owner: string }): void {
    this.#parts.mustFit?.(plan, owner)
  }

  async #admitted(
    jobId: string,
    { plan, admit }: { readonly plan: Plan; readonly admit: Admit | undefined },
    store: () => Promise<Stored | null>,
  ): Promise<Submitted> {
    if (plan.pipeline === null && admit === undefined) {
      const stored = await store()
      return { jobId, isNew: stored !== null, stored }
    }
    const { claimExecution = anyExecution } = this.#parts
    let stored: Stored | null = null
    let isRefused = true
    const releasePlace = plan.pipeline === null ? null : await claimExecution(jobId)
    const begin = async () => {
      isRefused = false
      stored = await store()
    }
    try {
      await (admit === undefined ? begin() : admit(jobId, begin))
    } catch (error) {
      // It is unknown whether a job that was sent to the store exists; a job that was not sent needs no place.
      if (isRefused) await releasePlace?.()
      throw error
    }
    return { jobId, isNew: stored !== null, stored }
  }

  #command(stored: StoredPlan, input: Json, options: SubmitOptions & { owner: string }): Submit {
    const { retryDefaults } = this.#parts
    const command: NewCommand = {
      type: "submit",
      owner: options.owner,
      workflow: stored.name,
      workflowVersion: stored.version,
      input,
      ttlSeconds:
        options.ttlSeconds === undefined
          ? (stored.plan.ttlSeconds ?? this.#parts.ttlSeconds)
          : options.ttlSeconds,
      priority: options.priority ?? 0,
    }
    // Set one by one: most jobs have none of them, and each spread copies the command.
    if (options.labels !== undefined) command.labels = { ...options.labels }
    if (options.traceparent !== undefined) command.traceparent = options.traceparent
    if (options.submittedBy !== undefined) command.submittedBy = options.submittedBy
    if (retryDefaults !== undefined) command.retryDefaults = retryDefaults
    const { paused } = this.#parts.engine.pauses.fields(options.owner, stored.name)
    if (paused !== undefined) command.paused = paused
    return hasStart(options) ? delayed(command, stored.plan, options) : command
  }

  /** One submission at a time per key: of two concurrent ones the second must find the job of the first. */
  async #serialize(key: string, submit: () => Promise<Submitted>): Promise<Submitted> {
    const turn = (this.#turns.get(key) ?? Promise.resolve()).then(submit, submit)
    this.#turns.set(key, turn)
    try {
      return await turn
    } finally {
      if (this.#turns.get(key) === turn) this.#turns.delete(key)
    }
  }

  /**
   * The first submission with a key determines the job's id; later ones get the same. A name is compared as written: an
   * alias may have moved between two sends of one submission. The order of object keys does not matter.
   */
  async #claim(
    submitted: readonly unknown[],
    options: SubmitOptions & { owner: string },
    jobId = this.#parts.engine.newJobId(),
  ): Promise<string> {
    const { owner, idempotencyKey } = options
    const fingerprint = computeFingerprint(submitted, options)
    const claim = {
      owner,
      key: idempotencyKey!,
      jobId,
      fingerprint,
      createdAt: this.#parts.now(),
    }
    const winner = await this.#parts.journal.claimKey(claim)
    mustBeSameContent(winner, fingerprint)
    return winner.jobId
  }

  /** For a job that another process has just submitted here, answers once it is durable: it is not visible before. */
  async #exists(id: string): Promise<boolean> {
    if (this.#parts.engine.live(id) === undefined) return (await this.#parts.journal.readJob(id)) !== null
    await this.#parts.engine.partitionOwner.withJob(id, () => {})
    return true
  }
}

type NewCommand = { -readonly [Field in keyof Submit]: Submit[Field] }

function delayed(command: Submit, { pipeline }: Plan, options: StartOptions): Submit {
  // Its place among the executions is claimed when it is submitted, and would be held until it starts.
  if (pipeline !== null)
    throw new UmbraError(
      "E309",
      "a pipeline cannot be delayed. Submit a workflow with a delay, and let one of its nodes run the pipeline.",
    )
  return { ...command, ...startFields(options) }
}

function computeFingerprint(submitted: readonly unknown[], options: SubmitOptions): string {
  const { labels = {}, priority = 0, ttlSeconds = null } = options
  const content = [...submitted, labels, priority, ttlSeconds]
  // The same delay, sent again, is the same submission; a time is the same in every zone.
  if (hasStart(options)) {
    const { startAt = null, delayMs = null } = startFields(options)
    content.push(startAt, delayMs)
  }
  return createHash("sha256")
    .update(JSON.stringify(sortedCopy(content)))
    .digest("hex")
}

function mustBeSameContent({ key, jobId, fingerprint }: KeyClaim, expected: string): void {
  if (fingerprint === expected) return
  throw new UmbraError(
    "E306",
    `Idempotency key "${key}" was used for another submission (job ${jobId}). Use a new key for new content.`,
  )
}

/** The submission was withdrawn. */
function isUnanswered(error: unknown): boolean {
  return error instanceof UmbraError && error.code === "E613"
}
