/**
 * Group commit of one execution: while one commit is in flight, the deliveries that end are collected for the
 * next one.
 *
 * 1. One commit at a time, in order. A commit whose outcome is unknown is resent, unchanged, until its
 *    outcome is known.
 * 2. Nothing acts on data that is not durable.
 */
import type { Fault } from "../../core/faults.ts"
import type { JsonObject } from "../../core/json.ts"
import { encodeProgress, type PipelineProgress, type Suspicion } from "../../core/pipeline/progress.ts"
import type { PipelinePlan } from "../../definition/pipeline/plan.ts"
import type {
  Attempt,
  DeadLetterRow,
  Invocation,
  LineageRow,
  MessageKey,
  PipelineCommit,
  PipelineStore,
} from "../../journal/port/pipelines.ts"
import { type RetryOptions, type RetryPolicy, retry } from "../../journal/retry.ts"
import type { Suspects } from "../execution/suspects.ts"
import type { PipelineSettings } from "../settings.ts"
import type { ExecutionStorage } from "../storage.ts"
import { CommitBuilder } from "./commit-builder.ts"
import type { Ending, InitialMessage } from "./delivery.ts"

export interface GroupCommitParts {
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
  readonly store: PipelineStore
  readonly retry: RetryPolicy
  readonly after: (ms: number, fire: () => void) => () => void
  /** A commit was made of what had ended. */
  readonly collected: () => void
  readonly durable: (commit: PipelineCommit) => void
  /** Another process owns the partition. */
  readonly fenced: () => void
  /** The store rejects the commit permanently. */
  readonly refused: (error: unknown) => void
}

export class GroupCommit {
  /** Why the execution fails with the last commit. */
  fault: Fault | null = null
  readonly #parts: GroupCommitParts
  readonly #retry: RetryOptions
  #commit: number
  /** The commit in flight; `#sending` resolves when its outcome is known. */
  #inFlight: PipelineCommit | null = null
  #sending: Promise<void> | null = null
  #isScheduled = false
  #isStopped = false
  #endings: Ending[] = []
  /** The number of messages that have ended or were emitted, and the bytes of the latter. */
  #weight = 0
  #bytes = 0
  /** No message is in flight any more: the next commit records that. */
  #isClosed = false
  #builder: CommitBuilder | null = null
  #isRequested = false
  #begins: readonly (() => void)[] = []

  constructor(parts: GroupCommitParts) {
    this.#parts = parts
    this.#commit = parts.commit
    const sleep = (ms: number) => new Promise<void>(resolve => parts.after(ms, resolve))
    this.#retry = { ...parts.retry, tries: Number.POSITIVE_INFINITY, sleep }
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
    if (!("fault" in ending.result)) this.#parts.storage.ended(ending.result.stored)
    this.#endings.push(ending)
    const { messages, bytes } = weigh(ending)
    this.#weight += messages
    this.#bytes += bytes
    this.schedule()
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
    this.schedule()
  }

  /** No process runs the execution any more. */
  close(): void {
    this.#isClosed = true
    this.request()
  }

  /** Requests a commit although nothing has ended: for its metrics, or for the state of the execution. */
  request(): void {
    this.#isRequested = true
    this.schedule()
  }

  /** There is something to collect. */
  schedule(): void {
    if (this.#isScheduled || this.#sending !== null || this.#isStopped) return
    this.#isScheduled = true
    // Deferred: everything else that this turn of the event loop brings joins the same commit.
    setImmediate(() => {
      this.#isScheduled = false
      this.#send()
    })
  }

  /** Resolves when everything that could be collected is durable, or cannot be. */
  async idle(): Promise<void> {
    while (this.#isScheduled || this.#sending !== null) {
      if (this.#sending !== null) await this.#sending
      else await new Promise<void>(resolve => setImmediate(resolve))
    }
  }

  /** Starts no further commit. Resolves when the outcome of the commit in flight is known. */
  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#sending
  }

  #send(): void {
    if (this.#sending !== null || this.#isStopped) return
    const commit = this.collect()
    if (commit === null) return
    this.#parts.collected()
    this.#sending = this.#store(commit).finally(() => {
      this.#sending = null
      this.schedule()
    })
  }

  async #store(commit: PipelineCommit): Promise<void> {
    const { store, durable, fenced, refused } = this.#parts
    let isHeld: boolean
    try {
      ;({ isHeld } = await retry(this.#retry, () => store.commit(commit)))
    } catch (error) {
      this.#isStopped = true
      refused(error)
      return
    }
    if (!isHeld) {
      this.#isStopped = true
      fenced()
      return
    }
    if (this.fault === null) this.#settled(commit)
    durable(commit)
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
    const rows: LineageRow[] = []
    const add = (attempt: number, calls: readonly Invocation[], emitted: Attempt["emitted"]) => {
      for (const call of calls)
        rows.push({ route, seq, attempt, emitted: emitted?.get(call.adapter) ?? null, ...call })
    }
    for (const written of this.#inFlight?.lineage ?? [])
      if (isIt(written)) add(written.attempt, written.invocations, written.emitted)
    for (const ending of this.#endings)
      for (const { delivery, invocations } of [ending, ...ending.members])
        if (isIt(delivery)) add(delivery.attempts + 1, invocations, null)
    return rows.length === 0 ? null : rows
  }

  #settled({ stored }: PipelineCommit): void {
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
