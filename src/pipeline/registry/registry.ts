/**
 * The adapters of a process, by type. There are three sources, in order of precedence: registered explicitly,
 * found in installed packages, built in. A later registration overrides an earlier one and the other two
 * sources; packages must not collide, because the winner would depend on the order in which they are found.
 */
import type { AdapterCatalog, AdapterSpec } from "../../definition/adapter.ts"
import { UmbraError } from "../../errors.ts"
import { type Adapter, defineAdapter, isAdapter } from "../adapter.ts"
import { adapterQueue } from "../execution/remote-chain.ts"

export class AdapterRegistry implements AdapterCatalog {
  readonly #builtIn = new Map<string, Adapter>()
  readonly #found = new Map<string, Adapter>()
  readonly #byHand = new Map<string, Adapter>()

  constructor(builtIn: Iterable<Adapter> = []) {
    for (const adapter of builtIn) this.#builtIn.set(adapter.type, adapter)
  }

  /** Accepts the result of `defineAdapter`, or a plain object of that shape. */
  add(...adapters: readonly Adapter[]): void {
    for (const adapter of adapters)
      this.#byHand.set(adapter.type, isAdapter(adapter) ? adapter : defineAdapter(adapter))
  }

  /** Adds adapters that come from packages: all or none. */
  addFound(adapters: readonly Adapter[]): void {
    const found = new Map(this.#found)
    for (const adapter of adapters) {
      const problem = this.#collision(adapter, found.get(adapter.type))
      if (problem !== undefined) throw new UmbraError("E720", problem)
      found.set(adapter.type, adapter)
    }
    for (const [type, adapter] of found) this.#found.set(type, adapter)
  }

  get(type: string): Adapter | undefined {
    return this.#byHand.get(type) ?? this.#found.get(type) ?? this.#builtIn.get(type)
  }

  isBuiltin(type: string): boolean {
    return this.#builtIn.has(type) && !this.#byHand.has(type)
  }

  /** The types of the adapters that are not built in. */
  own(): readonly string[] {
    return [...new Set([...this.#found.keys(), ...this.#byHand.keys()])]
  }

  types(): readonly string[] {
    return [...new Set([...this.#builtIn.keys(), ...this.#found.keys(), ...this.#byHand.keys()])]
  }

  #collision({ type, package: own }: Adapter, other: Adapter | undefined): string | undefined {
    if (other !== undefined && other.package !== own) {
      return `Both ${other.package} and ${own} have an adapter of type "${type}". Remove one of the packages, or register the adapter that you need yourself under another type.`
    }
    if (!this.#builtIn.has(type)) return undefined
    return `${own} has an adapter of type "${type}", which is built in. Its author must give it another type, for example "${own?.replace(/^.*umbra-/, "")}.${type}"; until then remove the package.`
  }
}

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
