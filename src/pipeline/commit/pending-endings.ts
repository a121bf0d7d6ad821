/** Deliveries that have ended and are not durable yet, and the commits that are built from them. */
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

export interface PendingEndingsParts {
  readonly plan: PipelinePlan
  readonly progress: PipelineProgress
  readonly head: Pick<PipelineCommit, "fence" | "execution">
  /** The number of the last commit. */
  readonly commit: number
  readonly settings: Pick<
    PipelineSettings,
    "commitMessages" | "commitBytes" | "maxUncommitted" | "maxUncommittedBytes"
  >
  readonly suspects: Suspects
  readonly storage: ExecutionStorage
  readonly now: () => number
  readonly random: () => number
  readonly metrics: () => JsonObject
}

export class PendingEndings {
  /** Why the execution fails with the last commit. */
  fault: Fault | null = null
  readonly #parts: PendingEndingsParts
  #commit: number
  /** The commit in flight. */
  #inFlight: PipelineCommit | null = null
  #endings: Ending[] = []
  /** The number of messages that have ended or were emitted, and the bytes of the latter. */
  #weight = 0
  #bytes = 0
  /** No message is in flight any more: the next commit records that. */
  #isClosed = false
  #builder: CommitBuilder | null = null
  #isRequested = false
  #begins: readonly (() => void)[] = []

  constructor(parts: PendingEndingsParts) {
    this.#parts = parts
    this.#commit = parts.commit
  }

  /** So much has ended, and is not in flight to the store, that no further delivery should begin. */
  get isFull(): boolean {
    const { maxUncommitted, maxUncommittedBytes } = this.#parts.settings
    return this.#weight >= maxUncommitted || this.#bytes >= maxUncommittedBytes
  }

  get isEmpty(): boolean {
    return this.#endings.length === 0 && this.#builder === null
  }

  add(ending: Ending): void {
    if (!("fault" in ending.result)) this.#parts.storage.leaving(ending.result.stored)
    this.#endings.push(ending)
    const { messages, bytes } = weigh(ending)
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

  /** The execution has drained with more dead letters than allowed. */
  exceed(fault: Fault): void {
    this.#open().exceed(fault)
  }

  /** No process runs the execution any more. */
  close(): void {
    this.#isClosed = true
    this.requestCommit()
  }

  /** Requests a commit although nothing has ended: for its metrics, or for the state of the execution. */
  requestCommit(): void {
    this.#isRequested = true
  }

  #open(): CommitBuilder {
    const { plan, progress, now, random } = this.#parts
    this.#builder ??= new CommitBuilder(plan, progress, { now: now(), random })
    return this.#builder
  }

  /** The next commit; null: there is nothing new. */
  collect(): PipelineCommit | null {
    const { progress, suspects, head, metrics } = this.#parts
    const hasNews = this.#builder !== null || this.#endings.length > 0 || suspects.isWaiting
    if (!hasNews && !this.#isRequested) return null
    this.#isRequested = false
    const builder = this.#open()
    this.#builder = null
    this.#settle(builder)
    if (this.#endings.length === 0) {
      this.#weight = 0
      this.#bytes = 0
    }
    progress.suspects = this.#isClosed ? [] : suspects.takeAnnounced()
    this.#begins = suspects.takeBegins()
    this.fault = builder.fault
    progress.isOpen = !this.#isClosed && builder.fault === null
    this.#commit += 1
    const { messages, lineage, parked, unparked, stored } = builder
    const rows = { messages, lineage, parked, unparked, stored }
    this.#inFlight = { ...head, commit: this.#commit, progress: encodeProgress(progress, metrics()), ...rows }
    return this.#inFlight
  }

  #settle(builder: CommitBuilder): void {
    for (const ending of this.#endings.splice(0, this.#share())) {
      builder.settle(ending)
      for (const { delivery } of [ending, ...ending.members]) this.#parts.suspects.clear(delivery)
      const { messages, bytes } = weigh(ending)
      this.#weight -= messages
      this.#bytes -= bytes
    }
  }

  /** How many endings make one commit: a bounded number of messages and bytes, but at least one. */
  #share(): number {
    const { commitMessages, commitBytes } = this.#parts.settings
    let [count, weight, size] = [0, 0, 0]
    while (count < this.#endings.length && weight < commitMessages && size < commitBytes) {
      const { messages, bytes } = weigh(this.#endings[count]!)
      weight += messages
      size += bytes
      count += 1
    }
    return count
  }

  /** Calls on a message that are in flight to the store; null: there are none. */
  pending({ route, seq }: MessageKey): readonly LineageRow[] | null {
    const isIt = (key: MessageKey) => key.route === route && key.seq === seq
    const rows = this.#inFlight?.lineage.filter(isIt) ?? []
    for (const ending of this.#endings)
      for (const { delivery, invocations } of [ending, ...ending.members])
        if (isIt(delivery))
          for (const call of invocations)
            rows.push({ route, seq, attempt: delivery.attempts + 1, emitted: null, ...call })
    return rows.length === 0 ? null : rows
  }

  /** The last commit is durable. */
  durable({ stored }: PipelineCommit): void {
    this.#inFlight = null
    this.#parts.storage.durable(stored)
    for (const begin of this.#begins) begin()
    this.#begins = []
  }
}

/** Includes the messages that it emitted, which are written in the same commit. */
function weigh({ members, result }: Ending): { readonly messages: number; readonly bytes: number } {
  let messages = 1 + members.length
  let bytes = 0
  if ("fault" in result) return { messages, bytes }
  for (const { emitted } of [result, ...members]) {
    messages += emitted.length
    for (const { body } of emitted) bytes += body.length
  }
  return { messages, bytes }
}
