/**
 * What has come to an end and is not durable yet, and the commits that are made of it. The only place where the progress
 * of an execution changes.
 */
import type { Fault } from "../core/faults.ts"
import type { JsonObject } from "../core/json.ts"
import { encodeProgress, type PipelineProgress } from "../core/pipeline/progress.ts"
import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import type { MessageKey, PipelineCommit } from "../journal/pipeline-store.ts"
import { Assembly } from "./assembly.ts"
import type { Ending } from "./delivery.ts"
import type { InitialMessage } from "./initial.ts"
import type { ExecutionStorage } from "./storage.ts"
import type { Suspects } from "./suspects.ts"

export interface LedgerParts {
  readonly plan: PipelinePlan
  readonly progress: PipelineProgress
  readonly head: Pick<PipelineCommit, "fence" | "execution">
  /** Number of the last commit. */
  readonly commit: number
  /** Endings in one commit, at most. */
  readonly commitMessages: number
  readonly suspects: Suspects
  readonly storage: ExecutionStorage
  readonly now: () => number
  readonly random: () => number
  readonly figures: () => JsonObject
}

export class Ledger {
  /** Why the execution fails with the commit that was made last. */
  fault: Fault | null = null
  /** Nothing is in hand any more: what the next commit says of it. */
  isClosed = false
  readonly #parts: LedgerParts
  #commit: number
  #endings: Ending[] = []
  #assembly: Assembly | null = null
  #isAsked = false
  #begins: readonly (() => void)[] = []

  constructor(parts: LedgerParts) {
    this.#parts = parts
    this.#commit = parts.commit
  }

  /** Messages that are done, and not durable. */
  get uncommitted(): number {
    return this.#endings.length
  }

  add(ending: Ending): void {
    if (!("fault" in ending.result)) this.#parts.storage.leaving(ending.result.stored)
    this.#endings.push(ending)
  }

  begin({ route, body, origin }: InitialMessage): void {
    this.#open().begin(route, body, origin)
  }

  giveUp(key: MessageKey, fault: Fault): void {
    this.#open().giveUp(key, fault)
  }

  /** A commit is wanted although nothing has ended: for its figures, or for what it says of the whole. */
  ask(): void {
    this.#isAsked = true
  }

  #open(): Assembly {
    const { plan, progress, now, random } = this.#parts
    this.#assembly ??= new Assembly(plan, progress, { now: now(), random })
    return this.#assembly
  }

  /** What goes to the store next; null: there is nothing new. */
  collect(): PipelineCommit | null {
    const { progress, suspects, head, figures } = this.#parts
    const hasNews = this.#assembly !== null || this.#endings.length > 0 || suspects.isWaiting
    if (!hasNews && !this.#isAsked) return null
    this.#isAsked = false
    const assembly = this.#open()
    this.#assembly = null
    this.#settle(assembly)
    progress.suspects = suspects.announced
    this.#begins = suspects.takeBegins()
    this.fault = assembly.fault
    progress.isOpen = !this.isClosed && assembly.fault === null
    this.#commit += 1
    const { messages, lineage, parked, unparked, stored } = assembly
    const rows = { messages, lineage, parked, unparked, stored }
    return { ...head, commit: this.#commit, progress: encodeProgress(progress, figures()), ...rows }
  }

  #settle(assembly: Assembly): void {
    for (const ending of this.#endings.splice(0, this.#parts.commitMessages)) {
      assembly.settle(ending)
      for (const { delivery } of [ending, ...ending.members]) this.#parts.suspects.clear(delivery)
    }
  }

  /** The commit that was made last is in the store. */
  durable({ stored }: PipelineCommit): void {
    this.#parts.storage.durable(stored)
    for (const begin of this.#begins) begin()
    this.#begins = []
  }
}
