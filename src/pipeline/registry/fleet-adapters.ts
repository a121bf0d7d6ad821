import type { AdapterCatalog, AdapterSpec } from "../../definition/adapter.ts"
import { adapterQueue } from "../execution/route-call.ts"

/**
 * The adapters that pipelines may name: those of this process, and those that workers report. For the latter
 * only the type is known, not the schema: errors in their config appear when they run.
 */
export class FleetAdapters implements AdapterCatalog {
  readonly #own: AdapterCatalog
  readonly #workers: () => readonly { readonly handlers: readonly string[] }[]

  constructor(own: AdapterCatalog, workers: () => readonly { readonly handlers: readonly string[] }[]) {
    this.#own = own
    this.#workers = workers
  }

  get(type: string): AdapterSpec | undefined {
    const own = this.#own.get(type)
    if (own !== undefined) return own
    return this.#workers().some(({ handlers }) => handlers.includes(adapterQueue(type)))
      ? { type }
      : undefined
  }

  types(): readonly string[] {
    const prefix = adapterQueue("")
    const theirs = this.#workers()
      .flatMap(({ handlers }) => handlers)
      .filter(name => name.startsWith(prefix))
    return [...new Set([...this.#own.types(), ...theirs.map(name => name.slice(prefix.length))])]
  }
}
