/** The handlers that a worker can run, by name. */
import type { HandlerCatalog, HandlerSpec } from "../definition/handler.ts"
import { UmbraError } from "../errors.ts"
import type { Handler } from "./handler.ts"
import { pureHandlers } from "./handlers/index.ts"

export class HandlerRegistry implements HandlerCatalog {
  readonly #handlers = new Map<string, Handler>()

  constructor(handlers: Iterable<Handler> = []) {
    this.addAll(handlers)
  }

  addAll(handlers: Iterable<Handler>): void {
    for (const handler of handlers) this.add(handler)
  }

  add(handler: Handler): void {
    if (this.#handlers.has(handler.name)) {
      throw new UmbraError(
        "E602",
        `There are two handlers named "${handler.name}". Give one of them another name, or register it once.`,
      )
    }
    if (handler.thread === true) {
      throw new UmbraError(
        "E602",
        `Handler "${handler.name}" has thread: true, but a thread must know which module to load. ` +
          "Write thread: import.meta.url in the module that exports it, or load that module with --handlers.",
      )
    }
    this.#handlers.set(handler.name, handler)
  }

  get(name: string): Handler | undefined {
    return this.#handlers.get(name)
  }

  names(): readonly string[] {
    return [...this.#handlers.keys()]
  }
}

/**
 * The handlers that workflows may name: those of this process, whether it runs nodes or not, and those that
 * workers report, or reported recently: a fleet whose workers are all being restarted rejects no workflow.
 * For a handler of another process only the name is known, not the schema: errors in its config appear when
 * it runs.
 */
export class FleetCatalog implements HandlerCatalog {
  /**
   * The handlers that run nodes here. Handlers that only compute need no worker: every engine runs them
   * itself.
   */
  readonly served: HandlerRegistry
  readonly #own: HandlerRegistry
  readonly #workers: () => readonly WorkerSays[]
  readonly #refresh: () => Promise<void>

  constructor(own: HandlerRegistry, parts: FleetCatalogParts) {
    this.#own = own
    this.served = parts.runsNodes ? own : new HandlerRegistry(pureHandlers)
    this.#workers = parts.workers
    this.#refresh = parts.refresh
  }

  /** The handlers that this process offers to others. */
  get offered(): readonly string[] {
    return this.served === this.#own ? this.served.names() : []
  }

  /** Returns the names of the handlers that can run nodes from now on. */
  add(handlers: readonly Handler[]): string[] {
    this.#own.addAll(handlers)
    return this.served === this.#own ? handlers.map(({ name }) => name) : []
  }

  get(name: string): HandlerSpec | undefined {
    return this.#own.get(name) ?? (this.#others().includes(name) ? { name } : undefined)
  }

  names(): readonly string[] {
    return [...new Set([...this.#own.names(), ...this.#others()])]
  }

  async refresh(): Promise<boolean> {
    const before = JSON.stringify(this.#others())
    await this.#refresh()
    return JSON.stringify(this.#others()) !== before
  }

  #others(): string[] {
    return this.#workers().flatMap(({ handlers }) => handlers)
  }
}

interface FleetCatalogParts {
  readonly runsNodes: boolean
  readonly workers: () => readonly WorkerSays[]
  /** Reads the live workers again. */
  readonly refresh: () => Promise<void>
}

interface WorkerSays {
  readonly handlers: readonly string[]
}
