import type { HandlerCatalog, HandlerSpec } from "../definition/handler.ts"
import type { Handler } from "./handler.ts"
import { pureHandlers } from "./handlers/plain.ts"
import { HandlerRegistry } from "./registry.ts"

/**
 * Handlers that workflows may name: those that this process has, whether it runs nodes or not, and those that workers
 * say they have, or said not long ago: a fleet whose workers are all being restarted refuses no workflow. Of another
 * process's handler we know the name and not the schema: what is wrong with its config shows when it runs.
 */
export class FleetCatalog implements HandlerCatalog {
  /** What nodes are run with here. What only computes needs no worker: every engine runs it for itself. */
  readonly served: HandlerRegistry
  readonly #own: HandlerRegistry
  readonly #workers: () => readonly WorkerSays[]

  constructor(own: HandlerRegistry, parts: { runsNodes: boolean; workers: () => readonly WorkerSays[] }) {
    this.#own = own
    this.served = parts.runsNodes ? own : new HandlerRegistry(pureHandlers)
    this.#workers = parts.workers
  }

  /** What others may count on this process for. */
  get offered(): readonly string[] {
    return this.served === this.#own ? this.served.names() : []
  }

  /** Answers the names of those that nodes can be run with from now on. */
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
