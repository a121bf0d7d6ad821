import type { Json } from "../../core/json.ts"
import type { Log } from "../../log.ts"
import type { AdapterContext, AdapterStorage, EmitOptions } from "../adapter.ts"
import type { DeliveryRun } from "../execution/delivery-run.ts"

/** The context of one adapter call. Its parts are created on first use; after the call it sends nothing. */
export class AdapterCall implements AdapterContext {
  readonly config: unknown
  readonly #run: DeliveryRun
  readonly #adapter: number
  #isOpen = true
  #isLogged = false
  #log: Log | undefined

  constructor(run: DeliveryRun, adapter: number, config: unknown) {
    this.#run = run
    this.#adapter = adapter
    this.config = config
  }

  get jobId(): string {
    return this.#run.chain.jobId
  }

  get owner(): string {
    return this.#run.chain.owner
  }

  get pipeline(): string {
    return this.#run.chain.pipeline
  }

  get route(): string {
    return this.#run.chain.plan.name
  }

  get attempt(): number {
    return this.#run.delivery.attempts + 1
  }

  get correlationId(): string {
    return `${this.jobId}/${this.#run.delivery.root}`
  }

  get parent(): string | null {
    const { parent } = this.#run.delivery
    return parent === null ? null : this.#run.chain.nameOf(parent)
  }

  get idempotencyKey(): string {
    return `${this.jobId}/${this.#run.id}/${this.#adapter}`
  }

  get gathered(): readonly string[] {
    const { id, members } = this.#run
    return members.length === 0 ? [] : [id, ...members.map(member => member.id)]
  }

  get input(): Json {
    return this.#run.chain.input
  }

  get storage(): AdapterStorage {
    return this.#run.storage
  }

  get signal(): AbortSignal {
    return this.#run.chain.signal
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
    options: { readonly key?: string } = {},
  ): Promise<string> => this.#run.chain.submit(workflow, input, `${this.idempotencyKey}/${options.key ?? ""}`)

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
