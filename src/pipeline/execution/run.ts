/**
 * One execution in the process that owns its job (P2): its routes, its commits, and its end.
 *
 * 1. One commit contains the acknowledgement of messages, the messages that they emitted, and their lineage.
 * 2. The execution ends when no message is queued, in flight or waiting for a retry, and all of that is
 *    durable.
 * 3. If it is stopped at any moment, everything that is needed to continue is in the store.
 */
import { setMaxListeners } from "node:events"
import type { Fault } from "../../core/faults.ts"
import type { Json } from "../../core/json.ts"
import {
  decodeProgress,
  isDrained,
  newProgress,
  type PipelineProgress,
} from "../../core/pipeline/progress.ts"
import type { PipelinePlan, RoutePlan } from "../../definition/pipeline/plan.ts"
import type { PartitionEpoch } from "../../journal/port/journal.ts"
import type {
  ExecutionRow,
  MessageKey,
  MessageRow,
  PipelineCommit,
  PipelineStore,
} from "../../journal/port/pipelines.ts"
import type { RetryPolicy } from "../../journal/retry.ts"
import type { Secret } from "../../worker/redact.ts"
import { CommitLoop } from "../commit/commit-loop.ts"
import type { Ending } from "../commit/delivery.ts"
import type { LiveMessage } from "../commit/live-message.ts"
import { PendingEndings } from "../commit/pending-endings.ts"
import { type Adapters, prepareRoute, type ScopeNames } from "../registry/prepared-adapter.ts"
import type { PipelineSettings } from "../settings.ts"
import type { ExecutionStorage } from "../storage.ts"
import { Chain, type ChainEvents, type ExecutionContext, type RouteChain } from "./chain.ts"
import { lostTooOften, suspectAll } from "./crash-suspects.ts"
import { deadLetterFault } from "./dead-letter-limit.ts"
import { liveMetrics, summary, totals } from "./execution-metrics.ts"
import { Flow } from "./flow.ts"
import { initialMessages } from "./initial.ts"
import { RouteRun } from "./route-run.ts"
import { Suspects } from "./suspects.ts"
import { waitForRoom } from "./wait-for-room.ts"

export interface RunParts {
  readonly plan: PipelinePlan
  readonly execution: ExecutionRow
  readonly fence: PartitionEpoch
  readonly store: PipelineStore
  readonly retry: RetryPolicy
  readonly settings: PipelineSettings
  readonly adapters: Adapters
  readonly names: ScopeNames
  /** The execution begins with dead letters, not with the messages of the definition. */
  readonly isReplay: boolean
  /** The secrets that adapters of the routes in this process read. */
  readonly secrets: readonly Secret[]
  readonly storage: ExecutionStorage
  readonly context: Omit<ExecutionContext, "storage" | "signal" | "settings" | "nameOf">
  readonly random: () => number
  /** The number of process deaths during the tries of a message after which it is not tried again. */
  readonly lossLimit: number
  /** Creates the chain of a route with `run_on: workers`. */
  readonly remoteChain: (
    route: { readonly position: number; readonly plan: RoutePlan; readonly context: ExecutionContext },
    events: ChainEvents,
  ) => RouteChain
  readonly events: RunEvents
}

export interface RunEvents {
  drained(output: Json): void
  failed(fault: Fault): void
  /** Another process owns the partition. */
  fenced(): void
  /** The store returned an impossible result, or this code has a bug. */
  broken(error: unknown): void
  progressed(message: string): void
}

const DRAIN_POLL_MS = 5
/** The number of dead letters read at a time: bodies may be a megabyte each. */
const PAGE = 50

export class PipelineRun {
  readonly pipeline: string
  readonly #parts: RunParts
  readonly #progress: PipelineProgress
  readonly #routes: readonly RouteRun[]
  readonly #endings: PendingEndings
  readonly #commits: CommitLoop
  readonly #flow: Flow
  readonly #suspects = new Suspects({
    announce: () => this.#commits.schedule(),
    inHand: () => this.#routes.reduce((sum, { inHand }) => sum + inHand, 0),
  })
  readonly #abort = new AbortController()
  /** No further message begins. */
  #isHalted = false
  /** The run was stopped: results that arrive now are ignored. */
  #isOver = false
  #cancelMetrics: (() => void) | null = null
  #whenOpened: (() => void) | null = null

  constructor(parts: RunParts) {
    const { plan, execution, fence, settings, storage, random } = parts
    this.#parts = parts
    this.pipeline = parts.context.pipeline
    // Every message in flight may listen.
    setMaxListeners(0, this.#abort.signal)
    this.#progress =
      execution.progress === null ? newProgress(plan.routes.length) : decodeProgress(execution.progress)
    // The job was retried: the messages that failed it are tried again.
    for (const route of this.#progress.routes) route.fatal = 0
    this.#flow = new Flow(plan, this.#progress)
    const { signal } = this.#abort
    const context: ExecutionContext = {
      ...parts.context,
      storage,
      settings,
      signal,
      submit: (workflow, input, key) =>
        waitForRoom(() => parts.context.submit(workflow, input, key), { ...parts.context, signal }),
      nameOf: ({ route, seq }) => `${plan.routes[route]!.name}:${seq}`,
    }
    this.#routes = plan.routes.map((_, position) => this.#routeAt(position, context))
    this.#endings = new PendingEndings({
      ...{ plan, storage, random, progress: this.#progress, suspects: this.#suspects, now: context.now },
      head: { fence, execution: execution.execution },
      commit: execution.commit,
      settings,
      metrics: () => liveMetrics(this.#routes),
    })
    this.#commits = new CommitLoop({
      store: parts.store,
      retry: parts.retry,
      after: context.after,
      events: {
        collect: () => this.#endings.collect(),
        durable: commit => this.#durable(commit),
        fenced: () => this.#leave(() => parts.events.fenced()),
        refused: error => this.#broken(error),
      },
    })
  }

  /** A message that is in flight, or whose end is not durable yet. */
  live(key: MessageKey): LiveMessage | null {
    const pending = this.#endings.pending(key)
    if (pending !== null) return { rows: pending, running: null }
    return this.#routes[key.route]?.live(key.seq) ?? null
  }

  get routes(): readonly RouteRun[] {
    return this.#routes
  }

  #routeAt(position: number, context: ExecutionContext): RouteRun {
    const { store, execution, settings } = this.#parts
    const plan = this.#parts.plan.routes[position]!
    return new RouteRun({
      ...{ position, plan, context, suspects: this.#suspects },
      chain: this.#chainOf(position, context),
      progress: this.#progress.routes[position]!,
      queue: {
        store,
        execution: execution.execution,
        pageBytes: settings.pageBytes,
        now: context.now,
        after: context.after,
        broken: error => this.#broken(error),
      },
      mayBegin: () => this.#mayBegin(position),
      ended: ending => this.#ended(ending),
      reportProgress: message => this.#parts.events.progressed(message),
    })
  }

  #chainOf(position: number, context: ExecutionContext): (events: ChainEvents) => RouteChain {
    const plan = this.#parts.plan.routes[position]!
    if (plan.runOn === "workers")
      return events => this.#parts.remoteChain({ position, plan, context }, events)
    const prepared = prepareRoute(plan, this.#parts)
    return events => new Chain({ position, plan, prepared }, context, events)
  }

  async start(): Promise<void> {
    const guilty = this.#progress.isOpen ? suspectAll(this.#suspects, this.#progress, this.#parts) : []
    for (const suspect of guilty) this.#endings.giveUp(suspect, lostTooOften(this.#parts.lossLimit))
    // Nothing is delivered before the store records that this process has messages in flight, and which
    // messages are not delivered.
    if (this.#progress.isBegun) await this.#committed()
    else await this.#open()
    if (this.#progress.isOverLimit && !this.#isHalted) await this.#retryDeadLetters()
    if (this.#isHalted) return
    for (const route of this.#routes) {
      route.queue.pollRetries()
      route.pump()
    }
    this.#reportMetrics()
    this.#finishIfDrained()
  }

  /**
   * Writes the initial messages, in commits of a bounded size: after a crash the next owner continues behind
   * those that are stored.
   */
  async #open(): Promise<void> {
    let known = this.#progress.roots
    for await (const message of initialMessages(this.#parts)) {
      if (known-- > 0) continue
      this.#endings.begin(message)
      if (this.#endings.isFull) await this.#committed()
      if (this.#isHalted) return
    }
    this.#progress.isBegun = true
    await this.#committed()
  }

  /**
   * The job was retried after it had failed on `max_dead_letters`. Not retried: dead letters that another job
   * replays, and messages that exceeded the hop limit (E704), which would only exceed it again.
   */
  async #retryDeadLetters(): Promise<void> {
    const { store, execution } = this.#parts
    for (let after: MessageKey | undefined; ; ) {
      const from = after === undefined ? {} : { after }
      const page = await store.listDeadLetters({ execution: execution.execution, limit: PAGE, ...from })
      for (const letter of page) {
        if (letter.replayedBy !== null || (JSON.parse(letter.error) as Fault).code === "E704") continue
        this.#endings.retryDead(letter)
        this.#routes[letter.route]!.metrics.retriedDead += 1
      }
      after = page.at(-1)
      if (page.length < PAGE) this.#progress.isOverLimit = false
      await this.#committed()
      if (page.length < PAGE || this.#isHalted) return
    }
  }

  /** Resolves when the commit is durable, or the run was stopped. */
  #committed(): Promise<void> {
    this.#endings.requestCommit()
    this.#commits.schedule()
    return new Promise(resolve => {
      this.#whenOpened = resolve
    })
  }

  #mayBegin(position: number): boolean {
    if (this.#isHalted || this.#endings.fault !== null || this.#endings.isFull) return false
    return this.#flow.hasRoomBehind(position)
  }

  #ended(ending: Ending): void {
    // After a stop this result is not needed: the next owner delivers the message again.
    if (this.#isOver) return
    this.#endings.add(ending)
    this.#commits.schedule()
  }

  #durable(commit: PipelineCommit): void {
    const { fault } = this.#endings
    if (fault !== null) {
      this.#leave(() => this.#parts.events.failed(fault))
      return
    }
    for (const [route, messages] of byRoute(commit.messages))
      this.#routes[route]!.arrived(messages, messages.at(-1)!.seq)
    this.#endings.durable(commit)
    this.#noteParked(commit)
    this.#whenOpened?.()
    for (const route of this.#routes) route.pump()
    this.#finishIfDrained()
  }

  #noteParked({ parked, unparked }: PipelineCommit): void {
    const routes = new Set<RouteRun>()
    for (const { route, seq } of [...parked, ...unparked]) {
      const run = this.#routes[route]!
      run.queue.tried(seq)
      routes.add(run)
    }
    for (const { queue } of routes) queue.pollRetries()
  }

  #finishIfDrained(): void {
    // Over the limit, its dead letters are about to be retried, or the commit that fails it is in flight.
    if (this.#isHalted || this.#progress.isOverLimit) return
    if (!this.#endings.isEmpty || !isDrained(this.#progress)) return
    const fault = deadLetterFault(this.#parts.plan, this.#progress, true)
    if (fault !== null) {
      this.#endings.exceed(fault)
      this.#commits.schedule()
      return
    }
    this.#leave(() => this.#parts.events.drained(totals(this.#routes)))
  }

  #broken(error: unknown): void {
    this.#leave(() => this.#parts.events.broken(error))
  }

  #leave(tell: () => void): void {
    if (this.#isOver) return
    this.#halt()
    this.#isOver = true
    tell()
  }

  /** Messages in flight continue. */
  #halt(): void {
    this.#isHalted = true
    this.#whenOpened?.()
    this.#cancelMetrics?.()
    for (const route of this.#routes) route.stop()
  }

  /** Lets messages in flight end, within the grace period, and makes their results durable. */
  async drain(graceMs: number): Promise<void> {
    this.#halt()
    const { context } = this.#parts
    const end = context.now() + graceMs
    const isInHand = () => this.#routes.some(({ inHand }) => inHand > 0)
    while ((isInHand() || !this.#endings.isEmpty) && context.now() < end) await this.#pause(DRAIN_POLL_MS)
    await Promise.race([this.stop(), this.#pause(graceMs)])
  }

  #pause(ms: number): Promise<void> {
    return new Promise(resolve => this.#parts.context.after(ms, resolve))
  }

  /**
   * The execution is no longer needed in this process. Resolves when nothing of it is in flight to the store.
   */
  async stop(): Promise<void> {
    const wasOver = this.#isOver
    this.#halt()
    this.#isOver = true
    this.#abort.abort(new DOMException("The execution is stopping.", "AbortError"))
    if (!wasOver) {
      // Messages in flight are stopped with this run, and did not crash a process.
      this.#endings.close()
      this.#commits.schedule()
      await this.#commits.idle()
    }
    await this.#commits.stop()
  }

  #reportMetrics(): void {
    const { context, settings, events } = this.#parts
    if (this.#isHalted || settings.figuresSeconds === 0) return
    this.#cancelMetrics = context.after(settings.figuresSeconds * 1000, () => {
      this.#endings.requestCommit()
      this.#commits.schedule()
      events.progressed(summary(this.#routes))
      this.#reportMetrics()
    })
  }
}

function byRoute(messages: readonly MessageRow[]): Map<number, MessageRow[]> {
  const found = new Map<number, MessageRow[]>()
  for (const message of messages) {
    const list = found.get(message.route)
    if (list === undefined) found.set(message.route, [message])
    else list.push(message)
  }
  return found
}
