import type { Json } from "../../core/json.ts"
import type { Log } from "../../log.ts"
import type { AdapterContext, AdapterStorage, EmitOptions } from "../adapter.ts"
import type { DeliveryRun } from "../execution/delivery-run.ts"

/** The context of one adapter call. Its parts are created on first use; after the call it sends nothing. */
export class AdapterCall implements AdapterContext {
  readonly config: unknown
  readonly #passage: DeliveryRun
  readonly #adapter: number
  #isOpen = true
  #isTold = false
  #log: Log | undefined

  constructor(passage: DeliveryRun, adapter: number, config: unknown) {
    this.#passage = passage
    this.#adapter = adapter
    this.config = config
  }

  get jobId(): string {
    return this.#passage.chain.jobId
  }

  get owner(): string {
    return this.#passage.chain.owner
  }

  get pipeline(): string {
    return this.#passage.chain.pipeline
  }

  get route(): string {
    return this.#passage.chain.plan.name
  }

  get attempt(): number {
    return this.#passage.delivery.attempts + 1
  }

  get correlationId(): string {
    return `${this.jobId}/${this.#passage.delivery.root}`
  }

  get parent(): string | null {
    const { parent } = this.#passage.delivery
    return parent === null ? null : this.#passage.chain.nameOf(parent)
  }

  get idempotencyKey(): string {
    return `${this.jobId}/${this.#passage.id}/${this.#adapter}`
  }

  get gathered(): readonly string[] {
    const { id, members } = this.#passage
    return members.length === 0 ? [] : [id, ...members.map(member => member.id)]
  }

  get input(): Json {
    return this.#passage.chain.input
  }

  get storage(): AdapterStorage {
    return this.#passage.storage
  }

  get signal(): AbortSignal {
    return this.#passage.chain.signal
  }

  get log(): Log {
    const { chain, id } = this.#passage
    this.#log ??= chain.log.child({ message: id, adapter: chain.adapters[this.#adapter]!.type })
    return this.#log
  }

  readonly emit = (body: Json, options: EmitOptions = {}): void => {
    if (this.#isOpen) this.#passage.emit(body, options.kind ?? "default", this.#adapter)
    else this.#tellTooLate("emit")
  }

  readonly continueWith = (body: Json): void => {
    if (this.#isOpen) this.#passage.continueWith(body, this.#adapter)
    else this.#tellTooLate("continueWith")
  }

  readonly submit = (
    workflow: string,
    input?: Json,
    options: { readonly key?: string } = {},
  ): Promise<string> =>
    this.#passage.chain.submit(workflow, input, `${this.idempotencyKey}/${options.key ?? ""}`)

  end(): void {
    this.#isOpen = false
  }

  /**
   * Logged and not thrown: no caller waits for the code that still runs, and an exception would end the
   * process. Logged once.
   */
  #tellTooLate(method: string): void {
    if (this.#isTold || this.signal.aborted) return
    this.#isTold = true
    this.log.warn(
      {},
      `context.${method} was called after the adapter had ended and sends nothing: await the code that calls it`,
    )
  }
}
