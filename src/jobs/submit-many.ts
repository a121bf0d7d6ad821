import type { Submit } from "../core/commands.ts"
import { localOwner } from "../core/facts.ts"
import type { Json } from "../core/json.ts"
import type { Plan } from "../definition/plan.ts"
import type { Engine } from "../engine/engine.ts"
import { parseReference } from "../engine/versions.ts"
import { UmbraError } from "../errors.ts"
import { nextTurnIfLate } from "../turns.ts"
import { checkOptions } from "./arguments.ts"
import type { JobHandle } from "./handle.ts"
import type { StoredPlan, WorkflowSource, WorkflowText } from "./register.ts"
import type { AcceptOptions, SubmitOptions, Submitted } from "./submit.ts"

/** One submission of `umbra.submitMany`. */
export interface BulkJob {
  readonly workflow: WorkflowSource
  readonly input?: Json
  readonly options?: SubmitOptions
}

/** Options of one workflow with many inputs. An idempotency key is for one job: give each its own in a list of submissions. */
export type SubmitManyOptions = Omit<SubmitOptions, "idempotencyKey">

/** `isNew` is false if the idempotency key was used before; `error`: why the submission was refused. */
export type BulkResult<Output = Json> =
  | { readonly job: JobHandle<Output>; readonly isNew: boolean; readonly error?: undefined }
  | { readonly error: Error; readonly job?: undefined; readonly isNew?: undefined }

/** A submission whose workflow, if it is a text, is known as such. */
export interface BulkEntry {
  readonly workflow: WorkflowSource | WorkflowText
  readonly input?: unknown
  readonly options?: AcceptOptions | undefined
}

/** What was given to `umbra.submitMany`, as entries. `read` recognizes the text of a workflow. */
export function* bulkEntries(
  given: WorkflowSource | readonly BulkJob[],
  inputs: readonly unknown[] | undefined,
  options: SubmitManyOptions,
  read: (workflow: WorkflowSource) => WorkflowSource | WorkflowText,
): Generator<BulkEntry, void, undefined> {
  if (isList(given)) {
    // Checked first: no job is accepted if the list is not one of submissions.
    for (const [index, entry] of given.entries())
      if (typeof entry !== "object" || entry === null)
        throw new UmbraError("E309", `submitMany: entry ${index} is not an object with a workflow.`)
    for (const entry of given) yield { ...entry, workflow: read(entry.workflow) }
  } else {
    if (!Array.isArray(inputs))
      throw new UmbraError("E309", "submitMany needs a list of inputs, one for each job.")
    const workflow = read(given)
    for (const input of inputs) yield { workflow, input, options }
  }
}

/** TypeScript does not narrow a union with a readonly array by `Array.isArray`. */
function isList<T>(given: T | readonly BulkJob[]): given is readonly BulkJob[] {
  return Array.isArray(given)
}

/** The entries with their owner and the trace of the bulk. Entries that share their options share the result. */
export function* newSubmissions(
  entries: Iterable<BulkEntry>,
  traceparent: string | undefined,
): Generator<NewSubmission, void, undefined> {
  let given: AcceptOptions | undefined
  let options: NewSubmission["options"] | null = null
  for (const entry of entries) {
    if (options === null || entry.options !== given) {
      given = entry.options
      options = { owner: localOwner, ...given, traceparent: traceparent ?? given?.traceparent }
    }
    yield { workflow: entry.workflow, input: entry.input, options }
  }
}

/** One job of a bulk. */
export interface NewSubmission {
  readonly workflow: WorkflowSource | WorkflowText
  readonly input?: unknown
  readonly options: AcceptOptions & { readonly owner: string }
}

/** Each submission of a bulk is accepted or refused for itself. */
export type Accepted = Submitted | { readonly error: Error }

export interface BulkParts {
  readonly engine: Engine
  /** Checks the options of an entry and resolves its workflow. */
  resolve(entry: NewSubmission): Promise<StoredPlan>
  /** Checks the input; a promise only if that takes longer. */
  command(entry: NewSubmission, stored: StoredPlan): Submit | Promise<Submit>
  /** Must the entry be submitted by itself? Its key, its place or its limit is claimed first. */
  isApart(entry: NewSubmission, plan: Plan): boolean
  submitApart(entry: NewSubmission): Promise<Submitted>
}

/** Submissions whose commits are awaited; further ones are not encoded before. */
const MAX_PENDING = 5000
/** Of those, submissions that need statements of their own. */
const MAX_APART = 200

/**
 * Submits many jobs. Jobs that need nothing but their own rows share the commits of their partitions, and cost neither a
 * promise nor a span each. Resolves when all are durable or refused.
 */
export class BulkSubmission {
  readonly #parts: BulkParts
  readonly #results: Accepted[] = []
  #pending = 0
  #apart = 0
  /** Called when at most `#most` are pending. */
  #wake: (() => void) | null = null
  #most = 0
  /** The last entry whose workflow was resolved, for the entries after it. */
  #last: { readonly entry: NewSubmission; readonly stored: StoredPlan } | null = null

  constructor(parts: BulkParts) {
    this.#parts = parts
  }

  async submit(entries: Iterable<NewSubmission>): Promise<Accepted[]> {
    const { engine } = this.#parts
    await engine.whenReady()
    const ended = engine.partitionOwner.queue.bulkBegan()
    try {
      return await this.#submitAll(entries)
    } finally {
      ended()
    }
  }

  async #submitAll(entries: Iterable<NewSubmission>): Promise<Accepted[]> {
    let index = 0
    for (const entry of entries) {
      const submitting = this.#submit(entry, index++)
      if (submitting !== undefined) await submitting
      // Done without a break, no other caller would get an answer meanwhile.
      const late = nextTurnIfLate()
      if (late !== undefined) await late
      if (this.#pending >= MAX_PENDING || this.#apart >= MAX_APART) await this.#pendingAtMost(MAX_PENDING / 2)
    }
    await this.#pendingAtMost(0)
    return this.#results
  }

  /** A promise only if something must be awaited: a promise for each of 100,000 jobs takes longer than their checks. */
  #submit(entry: NewSubmission, index: number): Promise<void> | undefined {
    const refused = (error: Error) => {
      this.#results[index] = { error }
    }
    try {
      const { workflow, options } = entry
      const last = this.#last
      if (last !== null && last.entry.workflow === workflow && last.entry.options.owner === options.owner) {
        if (last.entry.options !== options) checkOptions(options)
        return this.#submitTo(last.stored, entry, index)?.catch(refused)
      }
      return this.#resolve(entry)
        .then(resolved => this.#submitTo(resolved, entry, index))
        .catch(refused)
    } catch (error) {
      refused(error as Error)
      return undefined
    }
  }

  /** The same workflow of the same owner is resolved once; an alias may choose another version each time. */
  async #resolve(entry: NewSubmission): Promise<StoredPlan> {
    const { workflow } = entry
    const stored = await this.#parts.resolve(entry)
    const hasAlias = typeof workflow === "string" && parseReference(workflow).alias !== undefined
    this.#last = hasAlias ? null : { entry, stored }
    return stored
  }

  #submitTo(stored: StoredPlan, entry: NewSubmission, index: number): Promise<void> | undefined {
    const { plan } = stored
    if (this.#parts.isApart(entry, plan)) {
      this.#submitApart(entry, index)
      return undefined
    }
    const command = this.#parts.command(entry, stored)
    if (command instanceof Promise) return command.then(checked => this.#submitPlain(checked, plan, index))
    this.#submitPlain(command, plan, index)
    return undefined
  }

  #submitPlain(command: Submit, plan: Plan, index: number): void {
    const { engine } = this.#parts
    const jobId = engine.newJobId()
    const resolve = () => this.#end(index, { jobId, isNew: true, stored: null })
    this.#pending++
    engine.commands.submitThen(jobId, plan, command, {
      resolve,
      reject: error => this.#end(index, { error: error as Error }),
    })
  }

  #submitApart(entry: NewSubmission, index: number): void {
    this.#pending++
    this.#apart++
    this.#parts
      .submitApart(entry)
      .catch((error: Error) => ({ error }))
      .then(accepted => {
        this.#apart--
        this.#end(index, accepted)
      })
  }

  #end(index: number, accepted: Accepted): void {
    this.#results[index] = accepted
    this.#pending--
    if (this.#pending > this.#most || this.#apart >= MAX_APART) return
    this.#wake?.()
    this.#wake = null
  }

  async #pendingAtMost(most: number): Promise<void> {
    if (this.#pending <= most && this.#apart < MAX_APART) return
    this.#most = most
    await new Promise<void>(resolve => {
      this.#wake = resolve
    })
  }
}
