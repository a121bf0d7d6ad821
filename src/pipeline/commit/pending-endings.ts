/** What has come to an end and is not durable yet, and the commits that are made of it. */
import type { Fault } from "../../core/faults.ts"
import type { JsonObject } from "../../core/json.ts"
import { encodeProgress, type PipelineProgress, type Suspicion } from "../../core/pipeline/progress.ts"
import type { PipelinePlan } from "../../definition/pipeline/plan.ts"
import type { DeadLetterRow, LineageRow, MessageKey, PipelineCommit } from "../../journal/port/pipelines.ts"
import type { InitialMessage } from "../execution/initial.ts"
import type { Suspects } from "../execution/suspects.ts"
import type { PipelineSettings } from "../settings.ts"
import type { ExecutionStorage } from "../storage.ts"
import { CommitBuilder } from "./commit-builder.ts"
import type { Ending } from "./delivery.ts"

export interface LedgerParts {
  readonly plan: PipelinePlan
  readonly progress: PipelineProgress
  readonly head: Pick<PipelineCommit, "fence" | "execution">
  /** Number of the last commit. */
  readonly commit: number
  readonly settings: Pick<
    PipelineSettings,
    "commitMessages" | "commitBytes" | "maxUncommitted" | "maxUncommittedBytes"
  >
  readonly suspects: Suspects
  readonly storage: ExecutionStorage
  readonly now: () => number
  readonly random: () => number
  readonly figures: () => JsonObject
}

export class PendingEndings {
  /** Why the execution fails with the commit that was made last. */
  fault: Fault | null = null
  readonly #parts: LedgerParts
  #commit: number
  /** The commit that is on its way. */
  #flying: PipelineCommit | null = null
  #endings: Ending[] = []
  /** Messages that have ended and that they emitted, and the bytes of those. */
  #weight = 0
  #bytes = 0
  /** Nothing is in hand any more: what the next commit says of it. */
  #isClosed = false
  #assembly: CommitBuilder | null = null
  #isAsked = false
  #begins: readonly (() => void)[] = []

  constructor(parts: LedgerParts) {
    this.#parts = parts
    this.#commit = parts.commit
  }

  /** So much is done, and not on its way to the store, that nothing more should be begun. */
  get isFull(): boolean {
    const { maxUncommitted, maxUncommittedBytes } = this.#parts.settings
    return this.#weight >= maxUncommitted || this.#bytes >= maxUncommittedBytes
  }

  get isEmpty(): boolean {
    return this.#endings.length === 0 && this.#assembly === null
  }

  add(ending: Ending): void {
    if (!("fault" in ending.result)) this.#parts.storage.leaving(ending.result.stored)
    this.#endings.push(ending)
    const { messages, bytes } = weightOf(ending)
    this.#weight += messages
    this.#bytes += bytes
  }

  begin(message: InitialMessage): void {
    this.#open().begin(message)
    this.#weight += 1
    this.#bytes += message.body.length
  }

  giveUp(suspect: Suspicion, fault: Fault): void {
    this.#open().giveUp(suspect, fault)
    this.#parts.suspects.clear(suspect)
  }

  retryDead(letter: DeadLetterRow): void {
    this.#open().retryDead(letter)
  }

  /** The execution has drained with more dead letters than it may have. */
  exceed(fault: Fault): void {
    this.#open().exceed(fault)
  }

  /** Nobody has the execution in hand any more. */
  close(): void {
    this.#isClosed = true
    this.ask()
  }

  /** A commit is wanted although nothing has ended: for its figures, or for what it says of the whole. */
  ask(): void {
    this.#isAsked = true
  }

  #open(): CommitBuilder {
    const { plan, progress, now, random } = this.#parts
    this.#assembly ??= new CommitBuilder(plan, progress, { now: now(), random })
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
    if (this.#endings.length === 0) {
      this.#weight = 0
      this.#bytes = 0
    }
    progress.suspects = this.#isClosed ? [] : suspects.takeAnnounced()
    this.#begins = suspects.takeBegins()
    this.fault = assembly.fault
    progress.isOpen = !this.#isClosed && assembly.fault === null
    this.#commit += 1
    const { messages, lineage, parked, unparked, stored } = assembly
    const rows = { messages, lineage, parked, unparked, stored }
    this.#flying = { ...head, commit: this.#commit, progress: encodeProgress(progress, figures()), ...rows }
    return this.#flying
  }

  #settle(assembly: CommitBuilder): void {
    for (const ending of this.#endings.splice(0, this.#share())) {
      assembly.settle(ending)
      for (const { delivery } of [ending, ...ending.members]) this.#parts.suspects.clear(delivery)
      const { messages, bytes } = weightOf(ending)
      this.#weight -= messages
      this.#bytes -= bytes
    }
  }

  /** How many endings make one commit: a bounded number of messages and bytes, but one at least. */
  #share(): number {
    const { commitMessages, commitBytes } = this.#parts.settings
    let [count, weight, size] = [0, 0, 0]
    while (count < this.#endings.length && weight < commitMessages && size < commitBytes) {
      const { messages, bytes } = weightOf(this.#endings[count]!)
      weight += messages
      size += bytes
      count += 1
    }
    return count
  }

  /** Calls on a message that are on their way to the store; null: there are none. */
  pending({ route, seq }: MessageKey): readonly LineageRow[] | null {
    const isIt = (key: MessageKey) => key.route === route && key.seq === seq
    const rows = this.#flying?.lineage.filter(isIt) ?? []
    for (const ending of this.#endings)
      for (const { delivery, invocations } of [ending, ...ending.members])
        if (isIt(delivery))
          for (const call of invocations)
            rows.push({ route, seq, attempt: delivery.attempts + 1, emitted: null, ...call })
    return rows.length === 0 ? null : rows
  }

  /** The commit that was made last is in the store. */
  durable({ stored }: PipelineCommit): void {
    this.#flying = null
    this.#parts.storage.durable(stored)
    for (const begin of this.#begins) begin()
    this.#begins = []
  }
}

/** With what it emitted, which is written along. */
function weightOf({ members, result }: Ending): { readonly messages: number; readonly bytes: number } {
  let messages = 1 + members.length
  let bytes = 0
  if ("fault" in result) return { messages, bytes }
  for (const { emitted } of [result, ...members]) {
    messages += emitted.length
    for (const { body } of emitted) bytes += body.length
  }
  return { messages, bytes }
}
