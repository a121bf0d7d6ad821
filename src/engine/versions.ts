/**
 * Resolves a caller's reference (`name`, `name@3`, `name@stable`) to a version, without reading a definition. A moved
 * alias takes effect at once, in every process.
 */
import { UmbraError } from "../errors.ts"
import type { Journal } from "../journal/port/journal.ts"
import type { AliasTarget } from "../journal/port/registry.ts"
import { SingleFlight } from "./single-flight.ts"

interface Reference {
  readonly name: string
  /** Without a version and an alias: the latest. */
  readonly version?: number
  readonly alias?: string
}

interface Resolved {
  readonly name: string
  readonly version: number
}

export const aliasPattern = /^[A-Za-z_][A-Za-z0-9_-]{0,62}$/

/** The last `@` separates the name, if the rest can be a version or an alias; names may contain other `@`. */
export function parseReference(text: string): Reference {
  const [, name, target] = /^(.+)@([^@]+)$/s.exec(text) ?? []
  if (name === undefined || target === undefined) return { name: text }
  if (/^\d{1,9}$/.test(target)) return { name, version: Number(target) }
  if (target === "latest") return { name }
  return aliasPattern.test(target) ? { name, alias: target } : { name: text }
}

export class Versions {
  readonly #journal: Journal
  readonly #random: () => number
  readonly #targets = new SingleFlight<readonly AliasTarget[]>()
  readonly #single = new SingleFlight<Resolved>()

  constructor(journal: Journal, random: () => number = Math.random) {
    this.#journal = journal
    this.#random = random
  }

  /** The version that a submission gets now; E305 if there is none. */
  resolve(owner: string, text: string): Promise<Resolved> {
    const key = `${owner.length} ${owner}${text}`
    // Only an alias may give submissions of one moment different versions.
    return text.includes("@")
      ? this.#pick(owner, text, key)
      : this.#single.run(key, () => this.#latest(owner, text))
  }

  async #latest(owner: string, name: string): Promise<Resolved> {
    if (name.includes("\0")) throw noSuchWorkflow(name)
    const version = await this.#journal.registry.readLatest({ owner, name })
    if (version === null) throw noSuchWorkflow(name)
    return { name, version }
  }

  async #pick(owner: string, text: string, key: string): Promise<Resolved> {
    if (text.includes("\0")) throw noSuchWorkflow(text)
    const reference = parseReference(text)
    const targets = await this.#targets.run(key, () => this.#read(owner, reference))
    if (targets.length === 0) throw noSuchWorkflow(text)
    return { name: reference.name, version: pick(targets, this.#random()) }
  }

  async #read(owner: string, { name, version, alias }: Reference): Promise<readonly AliasTarget[]> {
    const { registry } = this.#journal
    if (alias !== undefined) return (await registry.readAlias({ owner, name, alias }))?.targets ?? []
    if (version !== undefined)
      return (await registry.hasVersion({ owner, name, version })) ? [{ version, weight: 1 }] : []
    const latest = await registry.readLatest({ owner, name })
    return latest === null ? [] : [{ version: latest, weight: 1 }]
  }
}

/** `random` in [0, 1): picks each version according to its weight, and never one with weight 0. */
export function pick(targets: readonly AliasTarget[], random: number): number {
  let left = random * targets.reduce((sum, { weight }) => sum + weight, 0)
  for (const { version, weight } of targets) {
    left -= weight
    if (left < 0) return version
  }
  // Rounding may leave a remainder.
  return targets.findLast(({ weight }) => weight > 0)!.version
}

/** The name may be right, and only the part after the @ wrong. */
export function noSuchWorkflow(reference: string): UmbraError {
  const advice = reference.includes("@")
    ? "Check the name, and the version or alias after the @."
    : "Store it first, or check the name."
  return new UmbraError("E305", `There is no workflow "${reference}". ${advice}`)
}
