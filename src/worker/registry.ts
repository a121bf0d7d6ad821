/** The handlers that a worker can run, by name. */
import type { HandlerCatalog } from "../definition/handler.ts"
import { UmbraError } from "../errors.ts"
import type { Handler } from "./handler.ts"

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
