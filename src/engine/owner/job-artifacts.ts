/**
 * The artifacts that jobs refer to. A reference is checked, and its artifact claimed, before the fact that has it is decided on;
 * the append of the fact holds the artifact (`AppendLane.record`).
 */
import { type ArtifactAnswer, type ArtifactQuestion, artifactsInValue } from "../../core/artifacts.ts"
import type { OperationResult } from "../../core/commands.ts"
import type { Fault } from "../../core/faults.ts"
import type { Json } from "../../core/json.ts"
import { UmbraError } from "../../errors.ts"
import type { ArtifactStore } from "../../journal/port/artifacts.ts"
import type { Journal } from "../../journal/port/journal.ts"

/** Claims that are younger are not renewed: `Artifacts.remove` respects them for longer than this. */
const RENEW_MS = 10_000

/** Of the owner's hashes those that exist. */
interface Claim {
  readonly hashes: Set<string>
  readonly found: Promise<ReadonlySet<string>>
}

export class JobArtifacts {
  readonly #store: ArtifactStore
  readonly #now: () => number
  /** By owner: the claim in flight, as one that never fails. Those that arrive meanwhile are sent together after it. */
  readonly #inFlight = new Map<string, Promise<unknown>>()
  readonly #next = new Map<string, Claim>()

  constructor({ artifacts }: Pick<Journal, "artifacts">, now: () => number) {
    this.#store = artifacts
    this.#now = now
  }

  /** Answers an attempt of a job of this owner. */
  async answer(owner: string, question: ArtifactQuestion): Promise<ArtifactAnswer> {
    if (question.type === "put")
      return { artifact: await this.#store.put({ owner, ...question.artifact, at: this.#now() }) }
    if (question.type === "find") return { artifact: await this.#store.read({ owner, hash: question.hash }) }
    return { used: await this.#store.usedBytes(owner) }
  }

  /** The fault of an attempt that refers to artifacts which its owner does not have; null: the owner has all. */
  async fault(owner: string, hashes: readonly string[]): Promise<Fault | null> {
    const missing = await this.#missing(owner, hashes)
    return missing.length === 0 ? null : { code: "E807", message: missingText(missing), retryable: false }
  }

  /**
   * A result of an operation at a provider. One that refers to artifacts which the owner does not have is a failure; with such
   * a preview the operation is abandoned.
   */
  async result(owner: string, result: OperationResult): Promise<OperationResult> {
    if (result.type !== "completed" && result.type !== "running") return result
    const hashes = artifactsInValue(result.type === "completed" ? result.output : result.preview)
    const fault = hashes.length === 0 ? null : await this.fault(owner, hashes)
    if (fault === null) return result
    if (result.type === "running") return { type: "error", fault, isFinal: true }
    return { type: "failed", fault, usage: result.usage }
  }

  /** Throws E807 if the value refers to artifacts that the owner does not have. */
  async check(owner: string, value: Json | undefined): Promise<void> {
    const hashes = artifactsInValue(value)
    if (hashes.length === 0) return
    const missing = await this.#missing(owner, hashes)
    if (missing.length > 0) throw new UmbraError("E807", missingText(missing))
  }

  async #missing(owner: string, hashes: readonly string[]): Promise<readonly string[]> {
    const found = await this.#claim(owner, hashes)
    return hashes.filter(hash => !found.has(hash))
  }

  #claim(owner: string, hashes: readonly string[]): Promise<ReadonlySet<string>> {
    const next = this.#next.get(owner) ?? this.#begin(owner)
    for (const hash of hashes) next.hashes.add(hash)
    return next.found
  }

  #begin(owner: string): Claim {
    const hashes = new Set<string>()
    const send = async () => {
      this.#next.delete(owner)
      const at = this.#now()
      const claim = { owner, hashes: [...hashes], at, staleBefore: at - RENEW_MS }
      return new Set(await this.#store.claim(claim))
    }
    const found = (this.#inFlight.get(owner) ?? Promise.resolve()).then(send)
    const ended = found.then(
      () => {},
      () => {},
    )
    this.#inFlight.set(owner, ended)
    void ended.then(() => {
      if (this.#inFlight.get(owner) === ended) this.#inFlight.delete(owner)
    })
    const next = { hashes, found }
    this.#next.set(owner, next)
    return next
  }
}

function missingText(hashes: readonly string[]): string {
  const more = hashes.length > 1 ? ` and ${hashes.length - 1} more` : ""
  return `There is no artifact ${hashes[0]}${more} to refer to. Store the content first, and use the reference that is returned.`
}
