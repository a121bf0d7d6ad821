import type { HandlerCatalog, HandlerSpec } from "../definition/handler.ts"
import type { Handler } from "./handler.ts"
import { pureHandlers } from "./handlers/plain.ts"
import { HandlerRegistry } from "./registry.ts"

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

  constructor(own: HandlerRegistry, parts: { runsNodes: boolean; workers: () => readonly WorkerSays[] }) {
    this.#own = own
    this.served = parts.runsNodes ? own : new HandlerRegistry(pureHandlers)
    this.#workers = parts.workers
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

  #others(): string[] {
    return this.#workers().flatMap(({ handlers }) => handlers)
  }
}

interface WorkerSays {
  readonly handlers: readonly string[]
}
