/**
 * Decides where inputs are checked, so that no schema and no input blocks the event loop.
 *
 * 1. Small inputs of schemas without patterns, formats and `uniqueItems` are checked at once, on the event loop.
 * 2. All others are checked in a thread. A check has 50 ms there; one that takes longer starts again in a second thread,
 *    so that the others wait only for short checks. After 500 ms the input is rejected. Milliseconds are counted in steps
 *    (`stepsPerMs`), so a busy machine rejects nothing that another accepts.
 * 3. Owners take turns. The time of the threads for one owner, and for one request, is bounded: beyond it that owner, or
 *    that request, gets E614; others are not affected.
 */

import type { Worker } from "node:worker_threads"
import type { Json, JsonObject } from "../../core/json.ts"
import { valueIn } from "../../core/maps.ts"
import type { SignalSchema } from "../../core/plan.ts"
import { type ErrorCode, UmbraError } from "../../errors.ts"
import { startThread } from "../../thread.ts"
import { nextTurnIfLate } from "../../turns.ts"
import type { Plan } from "../plan.ts"
import { type InputCheck, InputChecker, readInput, refused } from "./input.ts"
import { CheckRun, type InputProblem, StepsSpentError, stepsPerMs } from "./schema-checks.ts"
import type { CheckAnswer, CheckBatch } from "./thread.ts"

export interface CheckLimits {
  /** For a check on the event loop. */
  readonly inlineMs: number
  /** Largest input, and largest schema, in values, that is checked on the event loop. */
  readonly inlineSize: number
  /** For a batch of checks in the first thread. */
  readonly shortMs: number
  /** For one check in the second thread. */
  readonly longMs: number
  /** For all checks of a request. */
  readonly requestMs: number
  /** For all checks of an owner: at once, and how much more each second. */
  readonly ownerMs: number
  readonly ownerMsPerSecond: number
  readonly now: () => number
}

const defaults: CheckLimits = {
  inlineMs: 0.5,
  inlineSize: 5_000,
  shortMs: 50,
  longMs: 500,
  requestMs: 1_000,
  ownerMs: 2_000,
  ownerMsPerSecond: 500,
  now: () => performance.now(),
}

/** The time that the checks of one request have used so far; a bulk of submissions shares one. */
export interface CheckedRequest {
  spentMs: number
}

export interface CheckedFor {
  readonly owner: string
  readonly request?: CheckedRequest | undefined
}

/** The value as text, or its problems. */
type ThreadCheck = { readonly text: string } | ReturnType<typeof refused>

interface Pending extends CheckedFor {
  readonly schema: JsonObject
  readonly text: string
  readonly depth: number
  readonly resolve: (result: ThreadCheck) => void
  readonly reject: (error: unknown) => void
}

/** Used only for schemas that have neither. */
const noMatchers = new InputChecker({
  pattern: () => () => true,
  format: () => undefined,
})

export class InputChecks {
  readonly #limits: CheckLimits
  readonly #budgets: OwnerBudgets
  readonly #short: CheckThread
  readonly #long: CheckThread

  constructor(limits: Partial<CheckLimits> = {}) {
    this.#limits = { ...defaults, ...limits }
    this.#budgets = new OwnerBudgets(this.#limits)
    const { shortMs, longMs } = this.#limits
    const mayBegin = (pending: Pending) => this.#mayBegin(pending)
    this.#short = new CheckThread({
      most: 64,
      milliseconds: () => shortMs,
      mayBegin,
      answered: (pending, answer) => this.#answered(pending, answer, false),
    })
    this.#long = new CheckThread({
      most: 1,
      milliseconds: pending => Math.max(1, Math.min(longMs, this.#left(pending))),
      mayBegin,
      answered: (pending, answer) => this.#answered(pending, answer, true),
    })
  }

  /** The value is a copy. A promise only if it is checked in a thread. */
  check(schema: JsonObject | null, input: unknown, by: CheckedFor): InputCheck | Promise<InputCheck> {
    // For a thousand submissions that arrive at once.
    const late = nextTurnIfLate()
    return late === undefined
      ? this.#check(schema, input, by)
      : late.then(() => this.#check(schema, input, by))
  }

  #check(schema: JsonObject | null, input: unknown, by: CheckedFor): InputCheck | Promise<InputCheck> {
    const read = readInput(input)
    if (read.problems !== undefined) return read
    const { given, values, depth } = read
    const { inlineMs, inlineSize } = this.#limits
    if (values > inlineSize) return this.#checkLarge(schema, { given, depth }, by)
    const text = JSON.stringify(given)
    if (schema === null) return { value: JSON.parse(text) as Json }
    const isCostly = noMatchers.inspect(schema, inlineSize)?.isCostly ?? true
    if (!isCostly)
      try {
        const run = new CheckRun({ steps: inlineMs * stepsPerMs })
        // A copy, also because keys with the value undefined must be absent.
        return noMatchers.check(schema, { given: JSON.parse(text) as Json, depth }, run)
      } catch (error) {
        if (!(error instanceof StepsSpentError)) throw error
      }
    return this.#inThread({ ...by, schema, text, depth }).then(parsed)
  }

  /** Each step runs in its own turn of the event loop: for 4 MB, each takes some 30 ms. */
  async #checkLarge(
    schema: JsonObject | null,
    { given, depth }: { readonly given: Json; readonly depth: number },
    by: CheckedFor,
  ): Promise<InputCheck> {
    await nextTurn()
    const text = JSON.stringify(given)
    await nextTurn()
    const checked = schema === null ? { text } : await this.#inThread({ ...by, schema, text, depth })
    const result = parsed(checked)
    await nextTurn()
    return result
  }

  #inThread(asked: Omit<Pending, "resolve" | "reject">): Promise<ThreadCheck> {
    return new Promise((resolve, reject) => {
      const pending = { ...asked, resolve, reject }
      if (this.#mayBegin(pending)) this.#short.add(pending)
    })
  }

  /** False: its owner or its request has used up its time, and got E614. */
  #mayBegin(pending: Pending): boolean {
    if (this.#left(pending) > 0) return true
    pending.reject(this.#spent(pending))
    return false
  }

  #left({ owner, request }: CheckedFor): number {
    return Math.min(this.#budgets.left(owner), this.#limits.requestMs - (request?.spentMs ?? 0))
  }

  #spent({ owner, request }: CheckedFor): UmbraError {
    const isRequest = request !== undefined && request.spentMs >= this.#limits.requestMs
    const whose = isRequest ? "this request" : "your jobs"
    const message = `The time limit for checking the inputs of ${whose} is reached. Try again later, with fewer or smaller inputs.`
    return new UmbraError("E614", message, {
      details: { retry_after: this.#budgets.secondsUntilWhole(owner) },
    })
  }

  /** `null`: the thread has ended. */
  #answered(pending: Pending, answer: CheckAnswer | null, isLong: boolean): void {
    if (answer === null) {
      // Another check of the batch may be the cause.
      if (!isLong) this.#long.add(pending)
      else pending.resolve(refused("The input could not be checked: the thread that checked it ended."))
      return
    }
    const hadLeft = this.#left(pending)
    this.#budgets.spend(pending.owner, answer.milliseconds)
    if (pending.request !== undefined) pending.request.spentMs += answer.milliseconds
    if ("problems" in answer) pending.resolve({ problems: answer.problems, more: answer.more })
    else if ("text" in answer) pending.resolve({ text: answer.text ?? pending.text })
    else if (!isLong) {
      if (this.#mayBegin(pending)) this.#long.add(pending)
    } else if (hadLeft < this.#limits.longMs) pending.reject(this.#spent(pending))
    else
      pending.resolve(
        refused(
          `The input could not be checked within ${this.#limits.longMs} ms. Simplify the patterns and references of its schema.`,
        ),
      )
  }
}

const parsed = (checked: ThreadCheck): InputCheck =>
  "text" in checked ? { value: JSON.parse(checked.text) as Json } : checked

const nextTurn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/** The time budget of each owner: some at once, and more as time passes. */
class OwnerBudgets {
  readonly #limits: CheckLimits
  /** Owners that have used some of their budget; `spent` is the amount at the time `at`. */
  readonly #owners = new Map<string, { spent: number; at: number }>()

  constructor(limits: CheckLimits) {
    this.#limits = limits
  }

  left(owner: string): number {
    return this.#limits.ownerMs - this.#spent(owner)
  }

  spend(owner: string, milliseconds: number): void {
    const spent = this.#spent(owner) + milliseconds
    this.#owners.set(owner, { spent, at: this.#limits.now() })
    if (this.#owners.size > 10_000)
      for (const known of this.#owners.keys()) if (this.#spent(known) === 0) this.#owners.delete(known)
  }

  /** Time until a check of maximal length is allowed. */
  secondsUntilWhole(owner: string): number {
    const { longMs, ownerMsPerSecond } = this.#limits
    return Math.max(1, Math.ceil((longMs - this.left(owner)) / ownerMsPerSecond))
  }

  #spent(owner: string): number {
    const known = this.#owners.get(owner)
    if (known === undefined) return 0
    const since = this.#limits.now() - known.at
    return Math.max(0, known.spent - (since * this.#limits.ownerMsPerSecond) / 1000)
  }
}

interface CheckThreadParts {
  /** Checks per batch. */
  readonly most: number
  readonly milliseconds: (first: Pending) => number
  /** Called before a check starts; a check that may not start has been answered. */
  readonly mayBegin: (pending: Pending) => boolean
  readonly answered: (pending: Pending, answer: CheckAnswer | null) => void
}

/** An idle thread ends after this time. */
const IDLE_MS = 10_000
/** A thread caches schemas of at most this many characters. */
const SCHEMA_CHARACTERS = 16 * 1024 * 1024
/** Characters of a batch with more than one check: sending them takes time on the event loop. */
const BATCH_CHARACTERS = 256 * 1024

/** A thread that checks inputs, and its queue of checks by owner. */
class CheckThread {
  readonly #parts: CheckThreadParts
  readonly #queues = new Map<string, Pending[]>()
  /** Schemas that the thread has. */
  readonly #schemas = new Map<JsonObject, number>()
  #schemaCharacters = 0
  #thread: Worker | null = null
  #inFlight: readonly Pending[] = []
  #idle: NodeJS.Timeout | undefined

  constructor(parts: CheckThreadParts) {
    this.#parts = parts
  }

  add(pending: Pending): void {
    valueIn(this.#queues, pending.owner, () => []).push(pending)
    // Submissions of one turn of the event loop share a batch.
    if (this.#inFlight.length === 0) queueMicrotask(() => this.#send())
  }

  #send(): void {
    if (this.#inFlight.length > 0) return
    const batch = this.#next()
    if (batch.length === 0) {
      this.#thread?.unref()
      return
    }
    this.#inFlight = batch
    const thread = this.#started()
    const isFirst = this.#schemas.size === 0 || this.#schemaCharacters > SCHEMA_CHARACTERS
    if (isFirst) this.#forgetSchemas()
    const schemas: [number, string][] = []
    const checks = batch.map(({ schema, text, depth }) => {
      let id = this.#schemas.get(schema)
      if (id === undefined) {
        id = this.#schemas.size
        this.#schemas.set(schema, id)
        const written = JSON.stringify(schema)
        this.#schemaCharacters += written.length
        schemas.push([id, written])
      }
      return { schema: id, text, depth }
    })
    const milliseconds = Math.ceil(this.#parts.milliseconds(batch[0]!))
    thread.postMessage({ milliseconds, schemas, isFirst, checks } satisfies CheckBatch)
  }

  /** One check of each owner in turn. */
  #next(): Pending[] {
    const batch: Pending[] = []
    let characters = 0
    while (this.#queues.size > 0 && batch.length < this.#parts.most)
      for (const [owner, queue] of [...this.#queues]) {
        const pending = queue.shift()!
        this.#queues.delete(owner)
        // To the end: the other owners are first in the next batch.
        if (queue.length > 0) this.#queues.set(owner, queue)
        if (!this.#parts.mayBegin(pending)) continue
        batch.push(pending)
        characters += pending.text.length
        if (batch.length === this.#parts.most || characters > BATCH_CHARACTERS) return batch
      }
    return batch
  }

  #started(): Worker {
    clearTimeout(this.#idle)
    if (this.#thread !== null) {
      this.#thread.ref()
      return this.#thread
    }
    const thread = startThread("definition/input/thread", {
      resourceLimits: { maxOldGenerationSizeMb: 512 },
    })
    thread.on("message", (answers: CheckAnswer[]) => this.#answered(answers))
    thread.on("error", () => this.#ended(thread))
    thread.on("exit", () => this.#ended(thread))
    this.#thread = thread
    return thread
  }

  #answered(answers: readonly CheckAnswer[]): void {
    const checked = this.#inFlight
    this.#inFlight = []
    // Checks that were not started go first, in their order.
    for (const pending of checked.slice(answers.length).reverse())
      valueIn(this.#queues, pending.owner, () => []).unshift(pending)
    for (const [i, answer] of answers.entries()) this.#parts.answered(checked[i]!, answer)
    this.#send()
    if (this.#inFlight.length > 0) return
    this.#idle = setTimeout(() => void this.#thread?.terminate(), IDLE_MS).unref()
  }

  #forgetSchemas(): void {
    this.#schemas.clear()
    this.#schemaCharacters = 0
  }

  #ended(thread: Worker): void {
    if (this.#thread !== thread) return
    this.#thread = null
    this.#forgetSchemas()
    const lost = this.#inFlight
    this.#inFlight = []
    for (const pending of lost) this.#parts.answered(pending, null)
    this.#send()
  }
}

/** One per process: the budgets hold for all checks in it. */
export const inputChecks = new InputChecks()

/** A checked copy of the input: the caller may change the original object. Throws E304. */
export function checkSubmission(
  plan: Pick<Plan, "name" | "input">,
  input: unknown,
  by: CheckedFor,
): Json | Promise<Json> {
  const checked = inputChecks.check(plan.input, input, by)
  return checked instanceof Promise ? checked.then(each => accepted(plan, each)) : accepted(plan, checked)
}

/** The data of a signal, with the defaults of its schema. Throws E317. */
export async function checkSignalData(
  { name, schema }: SignalSchema,
  data: Json,
  owner: string,
): Promise<Json> {
  const { value, problems, more } = await inputChecks.check(schema, data, { owner })
  if (problems === undefined) return value
  const named = problems.map(({ path, message }) => ({ path: path.replace(/^input/, "data"), message }))
  throw failed("E317", `The data of signal "${name}" fails its schema`, named, more)
}

function accepted(plan: Pick<Plan, "name">, { value, problems, more }: InputCheck): Json {
  if (problems === undefined) return value
  throw failed("E304", `The input fails the schema of workflow "${plan.name}"`, problems, more)
}

function failed(code: ErrorCode, what: string, problems: readonly InputProblem[], more: number): UmbraError {
  const texts = problems.map(problem => `${problem.path}: ${problem.message.replace(/\.$/, "")}`)
  const rest = more === 0 ? "" : `; and ${more} more`
  return new UmbraError(code, `${what}: ${texts.join("; ")}${rest}.`, {
    details: { problems, ...(more === 0 ? {} : { more }) },
  })
}
