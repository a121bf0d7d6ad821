/**
 * One delivery of a message through the adapters of its route (P3).
 *
 * 1. Total: whatever an adapter does, the run ends once, with one of the events.
 * 2. Emitted messages and stored values are handed over with the end, and only if it is an acknowledgement.
 * 3. No promise where no adapter needs one.
 */

import { ARTIFACT_MARK } from "../../core/artifacts.ts"
import { toFault } from "../../core/faults.ts"
import type { Json } from "../../core/json.ts"
import type { LiveMessage } from "../../engine/remote/live-messages.ts"
import { UmbraError } from "../../errors.ts"
import type { Invocation } from "../../journal/port/pipelines.ts"
import type { Log } from "../../log.ts"
import { checkOutput, isPromiseLike, mustBeJson } from "../../worker/output.ts"
import {
  type AdapterContext,
  type AdapterStorage,
  type Emission,
  type EmitOptions,
  EmittedMessage,
} from "../adapter.ts"
import {
  type Acknowledged,
  type Delivery,
  type Emitted,
  type Ending,
  failedCalls,
  type Member,
  referencesIn,
} from "../commit/delivery.ts"
import { CircuitOpenError } from "../errors.ts"
import type { PreparedAdapter } from "../registry/prepared-adapter.ts"
import type { DeliveryStorage } from "../storage.ts"
import type { Chain } from "./chain.ts"

/**
 * While another process may have taken over, nothing more is done: the messages in flight may belong to that
 * process, and may be done already.
 */
const UNSURE_MS = 50
const none: readonly string[] = []

/** A message in delivery, with those that were gathered into it. */
export interface ActiveDelivery {
  readonly delivery: Delivery
  /** `performance.now()` */
  readonly begunAt: number
  readonly members: readonly { readonly delivery: Delivery }[]
}

export interface DeliveryEvents {
  /**
   * `ending` null: this delivery does not count, and the message is to be delivered again. The breaker of an
   * adapter is open, or the execution is stopping.
   */
  ended(run: ActiveDelivery, ending: Ending | null): void
  /** The message waits to be gathered: no adapter works on it. */
  waits(run: ActiveDelivery): void
  resumed(run: ActiveDelivery): void
}

export class DeliveryRun implements ActiveDelivery {
  readonly chain: Chain
  readonly delivery: Delivery
  begunAt: number
  readonly members: DeliveryRun[] = []
  body: Json
  #id: string | undefined
  #at = 0
  #invocations: Invocation[] = []
  readonly #emitted: Emitted[] = []
  #emittedBytes = 0
  #storage: DeliveryStorage | undefined
  #call: AdapterCall | null = null
  #callBegunAt = 0
  /** Identifies the call to its breaker. */
  #trial = 0
  #hasEnded = false

  constructor(chain: Chain, delivery: Delivery) {
    this.chain = chain
    this.delivery = delivery
    this.begunAt = performance.now()
    this.body = JSON.parse(delivery.body) as Json
  }

  get id(): string {
    this.#id ??= this.chain.context.formatKey(this.delivery)
    return this.#id
  }

  get storage(): DeliveryStorage {
    this.#storage ??= this.chain.context.storage.open(this.id)
    return this.#storage
  }

  /** The index of the current adapter. */
  get adapter(): number {
    return this.#at
  }

  /** The delivery so far, for queries. */
  get live(): LiveMessage {
    const { route, seq, attempts } = this.delivery
    const attempt = attempts + 1
    const begunAt = this.#callBegunAt === 0 ? this.begunAt : this.#callBegunAt
    const durationUs = Math.round((performance.now() - begunAt) * 1000)
    return {
      rows: this.#invocations.map(call => ({ route, seq, attempt, emitted: null, ...call })),
      running: {
        ...{ adapter: this.#at, attempt, durationUs },
        at: Math.round(this.chain.context.now() - durationUs / 1000),
        emitted: this.#emitted.filter(({ adapter }) => adapter === this.#at).length,
      },
    }
  }

  /** Continues until an adapter is asynchronous, or the chain ends. */
  advance(): void {
    const { adapters } = this.chain
    while (!this.#hasEnded && this.#at < adapters.length) {
      const prepared = adapters[this.#at]!
      if (prepared.adapter.gather !== undefined) {
        if (this.delivery.isAlone) this.advanceGathered()
        else this.chain.gather(this, prepared)
        return
      }
      if (!this.#step(prepared)) return
    }
    if (!this.#hasEnded) this.#acknowledge()
  }

  /** This message is the first of a group, and the group is complete. */
  advanceGathered(): void {
    const { body } = this
    // The wait for the other messages does not count as work.
    this.begunAt = performance.now()
    this.body = [body, ...this.members.map(member => member.body)]
    if (this.#step(this.chain.adapters[this.#at]!, body)) this.advance()
  }

  /**
   * Returns true if the adapter has returned, and the chain may continue. `read` is the message that
   * templates of its config read.
   */
  #step(prepared: PreparedAdapter, read = this.body): boolean {
    const { chain } = this
    if (chain.context.signal.aborted) {
      this.hold()
      return false
    }
    if (!chain.context.isSure()) {
      chain.context.after(UNSURE_MS, () => this.#step(prepared, read) && this.advance())
      return false
    }
    if (prepared.breaker !== null) {
      const now = chain.context.now()
      if (prepared.breaker.mayCallAt(now) > now) {
        this.hold(new CircuitOpenError(prepared.type))
        return false
      }
      this.#trial = prepared.breaker.begin(now)
    }
    this.#callBegunAt = performance.now()
    try {
      const config = prepared.configFor(read)
      const answer =
        config instanceof Promise
          ? config.then(late => this.#ask(prepared, late))
          : this.#ask(prepared, config)
      if (!isPromiseLike(answer)) return this.#answered(prepared, answer)
      answer.then(
        late => this.#total(prepared, () => this.#answered(prepared, late)) && this.advance(),
        thrown => this.#threw(prepared, thrown),
      )
      return false
    } catch (thrown) {
      this.#threw(prepared, thrown)
      return false
    }
  }

  #ask(prepared: PreparedAdapter, config: unknown): unknown {
    this.#call = new AdapterCall(this, this.#at, config)
    const answer = prepared.adapter.process({ id: this.id, body: this.body }, this.#call)
    return isStream(answer) ? this.#consume(answer) : answer
  }

  /** Emits every yielded value; nothing continues to the next adapter. */
  async #consume(stream: AsyncIterable<Emission> | IterableIterator<Emission>): Promise<undefined> {
    for await (const each of stream) {
      if (this.#hasEnded) break
      if (each instanceof EmittedMessage) this.emit(each.body, each.kind, this.#at)
      else this.emit(each, "default", this.#at)
    }
    return undefined
  }

  #answered(prepared: PreparedAdapter, answer: unknown): boolean {
    if (this.#hasEnded) return false
    const isNothing = answer === undefined || answer === null
    const isLast = this.#at === this.chain.adapters.length - 1
    // First, because either may fail: then the call has failed.
    if (!isNothing) {
      if (!isLast) mustBeJson(answer, this.chain.passedOn)
      else if (this.chain.plan.outbound.has("default")) this.emit(answer as Json, "default", this.#at)
    }
    this.#called("completed", null)
    this.#reportToBreaker(prepared, false)
    if (!isNothing) this.body = answer as Json
    this.#at = isNothing ? this.chain.adapters.length : this.#at + 1
    return true
  }

  #total(prepared: PreparedAdapter, step: () => boolean): boolean {
    try {
      return step()
    } catch (thrown) {
      this.#threw(prepared, thrown)
      return false
    }
  }

  /** The message could not even be gathered. */
  fail(prepared: PreparedAdapter, thrown: unknown): void {
    this.#callBegunAt = performance.now()
    this.#threw(prepared, thrown)
  }

  #threw(prepared: PreparedAdapter, thrown: unknown): void {
    if (this.#hasEnded) return
    if (this.chain.context.signal.aborted) {
      prepared.breaker?.forget(this.#trial)
      this.hold()
      return
    }
    const clean = this.chain.redactor?.cleanError
    const fault = toFault(thrown, { now: this.chain.context.now(), thrower: "adapter", clean })
    if (thrown instanceof Error && !(thrown instanceof UmbraError)) {
      const stack = String(thrown.stack)
      this.chain.log.debug(
        { message: this.id, code: fault.code, stack: clean?.(stack) ?? stack },
        "the adapter threw",
      )
    }
    this.#called("failed", JSON.stringify(fault))
    // A fault that would repeat is caused by the message, not by the service behind the adapter.
    this.#reportToBreaker(prepared, fault.retryable)
    this.#end({ fault })
  }

  #called(status: "completed" | "failed", error: string | null): void {
    this.#call?.end()
    const durationUs = Math.round((performance.now() - this.#callBegunAt) * 1000)
    this.#invocations.push({
      adapter: this.#at,
      at: this.chain.context.now(),
      durationUs,
      status,
      into: null,
      error,
    })
  }

  #reportToBreaker({ breaker, type }: PreparedAdapter, isFailure: boolean): void {
    const changed = breaker?.ended(this.#trial, isFailure, this.chain.context.now()) ?? null
    if (changed !== null) this.chain.breakerChanged(this.#at, type, changed)
  }

  emit(body: Json, kind: string, adapter: number): void {
    const route = this.chain.plan.outbound.get(kind)
    if (route === undefined)
      throw new UmbraError(
        "E703",
        `Adapter "${this.chain.adapters[adapter]!.type}" emitted a message of kind "${kind}", and route "${this.chain.plan.name}" has no outbound queue for it.`,
      )
    this.#send({ route, adapter, body: this.#checkedText(body), isContinuation: false })
  }

  continueWith(body: Json, adapter: number): void {
    this.#send({ route: this.chain.route, adapter, body: this.#checkedText(body), isContinuation: true })
  }

  #send(emitted: Emitted): void {
    const { maxEmitted, maxEmittedBytes } = this.chain.context.settings
    this.#emittedBytes += emitted.body.length
    if (this.#emitted.length >= maxEmitted || this.#emittedBytes > maxEmittedBytes)
      throw new UmbraError(
        "E705",
        `Message ${this.id} emits more than ${maxEmitted} messages (max_emitted) or ${maxEmittedBytes} bytes ` +
          "(UMBRA_MAX_EMITTED_BYTES). Emit them in steps, with context.continueWith.",
      )
    this.#emitted.push(emitted)
  }

  #checkedText(body: Json): string {
    const { redactor, context } = this.chain
    const checked = checkOutput(body, { maxBytes: context.settings.maxMessageBytes, what: "message" })
    return redactor === null ? checked.text : JSON.stringify(redactor.value(checked.value))
  }

  /** From here on the message is processed as part of another one, and shares its result. */
  #toMember(first: DeliveryRun, result: Ending["result"]): Member {
    const end =
      "fault" in result
        ? ({ status: "failed", error: JSON.stringify(result.fault) } as const)
        : ({ status: "completed", error: null } as const)
    const { at, durationUs } = first.#invocations.find(({ adapter }) => adapter === this.#at)!
    const begunAt = Math.round(at - durationUs / 1000)
    const call = { adapter: this.#at, at: begunAt, durationUs: 0, into: first.delivery.seq, ...end }
    const invocations = [...this.#invocations, call]
    return { delivery: this.delivery, invocations, emitted: this.#emitted }
  }

  /** Messages with references to artifacts are emitted once it is known that the owner of the job has them. */
  #acknowledge(): void {
    const hashes = this.#references()
    if (hashes.length === 0) this.#end({ emitted: this.#emitted, stored: this.#storedByAll() })
    else
      void this.chain.context.artifactFault(hashes).then(fault => {
        if (fault === null) this.#end({ emitted: this.#emitted, stored: this.#storedByAll() })
        else {
          this.#invocations = [...failedCalls(this.#invocations, fault)]
          this.#end({ fault })
        }
      })
  }

  /** By far most messages have none. */
  #references(): readonly string[] {
    const runs = this.members.length === 0 ? [this] : [this, ...this.members]
    const mayRefer = ({ body }: Emitted) => body.includes(ARTIFACT_MARK)
    return runs.some(run => run.#emitted.some(mayRefer))
      ? referencesIn(runs.flatMap(run => run.#emitted))
      : none
  }

  #storedByAll(): Acknowledged["stored"] {
    const own = this.#storage?.changes ?? []
    if (this.members.length === 0) return own
    return [...own, ...this.members.flatMap(member => member.#storage?.changes ?? [])]
  }

  /** The message is to be delivered again, and this delivery does not count. */
  hold(error?: CircuitOpenError): void {
    if (error !== undefined) this.chain.log.debug({ message: this.id, code: error.code }, error.message)
    this.#close()
    this.chain.ended(this, null)
  }

  #end(result: Ending["result"]): void {
    if ("fault" in result) this.#close()
    this.#hasEnded = true
    this.chain.ended(this, {
      delivery: this.delivery,
      invocations: this.#invocations,
      members: this.members.map(member => member.#toMember(this, result)),
      result,
    })
  }

  #close(): void {
    this.#hasEnded = true
    this.#call?.end()
    for (const run of [this, ...this.members]) run.#storage?.release()
  }
}

/**
 * Generators, and other values that can be read only once. Lists are bodies; a Map or a Buffer is a value
 * too, but not JSON.
 */
function isStream(value: unknown): value is AsyncIterable<Emission> | IterableIterator<Emission> {
  if (typeof value !== "object" || value === null) return false
  if (Symbol.asyncIterator in value) return true
  return Symbol.iterator in value && typeof (value as { next?: unknown }).next === "function"
}

/** The context of one adapter call. Its parts are created on first use; after the call it sends nothing. */
class AdapterCall implements AdapterContext {
  readonly config: unknown
  readonly jobId: string
  readonly owner: string
  readonly pipeline: string
  readonly route: string
  readonly input: Json
  readonly signal: AbortSignal
  readonly attempt: number
  readonly #run: DeliveryRun
  readonly #adapter: number
  #isOpen = true
  #isLogged = false
  #log: Log | undefined

  constructor(run: DeliveryRun, adapter: number, config: unknown) {
    const { context, plan } = run.chain
    this.config = config
    this.jobId = context.jobId
    this.owner = context.owner
    this.pipeline = context.pipeline
    this.route = plan.name
    this.input = context.input
    this.signal = context.signal
    this.attempt = run.delivery.attempts + 1
    this.#run = run
    this.#adapter = adapter
  }

  get correlationId(): string {
    return `${this.jobId}/${this.#run.delivery.root}`
  }

  get parent(): string | null {
    const { parent } = this.#run.delivery
    return parent === null ? null : this.#run.chain.context.formatKey(parent)
  }

  get idempotencyKey(): string {
    return `${this.jobId}/${this.#run.id}/${this.#adapter}`
  }

  get gathered(): readonly string[] {
    const { id, members } = this.#run
    return members.length === 0 ? [] : [id, ...members.map(member => member.id)]
  }

  get storage(): AdapterStorage {
    return this.#run.storage
  }

  get log(): Log {
    const { chain, id } = this.#run
    this.#log ??= chain.log.child({ message: id, adapter: chain.adapters[this.#adapter]!.type })
    return this.#log
  }

  readonly emit = (body: Json, options: EmitOptions = {}): void => {
    if (this.#isOpen) this.#run.emit(body, options.kind ?? "default", this.#adapter)
    else this.#logTooLate("emit")
  }

  readonly continueWith = (body: Json): void => {
    if (this.#isOpen) this.#run.continueWith(body, this.#adapter)
    else this.#logTooLate("continueWith")
  }

  readonly submit = (
    workflow: string,
    input?: Json,
    options: { readonly key?: string | undefined } = {},
  ): Promise<string> =>
    this.#run.chain.context.submit(workflow, input, `${this.idempotencyKey}/${options.key ?? ""}`)

  end(): void {
    this.#isOpen = false
  }

  /**
   * Logged and not thrown: no caller waits for the code that still runs, and an exception would end the
   * process. Logged once.
   */
  #logTooLate(method: string): void {
    if (this.#isLogged || this.signal.aborted) return
    this.#isLogged = true
    this.log.warn(
      {},
      `context.${method} was called after the adapter had ended and sends nothing: await the code that calls it`,
    )
  }
}
