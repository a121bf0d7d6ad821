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
import type { Json, JsonObject } from "../../core/json.ts"
import { groupBy } from "../../core/maps.ts"
import { routesBehind } from "../../core/pipeline/flow.ts"
import {
  decodeProgress,
  isDrained,
  newProgress,
  type PipelineProgress,
  unsettled,
} from "../../core/pipeline/progress.ts"
import type { PipelinePlan, PipelineTotals, RoutePlan } from "../../definition/pipeline/plan.ts"
import { within } from "../../engine/clock.ts"
import type { LiveMessage } from "../../engine/remote/live-messages.ts"
import { UmbraError } from "../../errors.ts"
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
import { deadLetterFault } from "../commit/commit-builder.ts"
import { type Ending, type InitialMessage, referencesIn } from "../commit/delivery.ts"
import { GroupCommit } from "../commit/group-commit.ts"
import { type Adapters, prepareRoute, type ScopeNames } from "../registry/prepared-adapter.ts"
import type { PipelineSettings } from "../settings.ts"
import type { ExecutionStorage } from "../storage.ts"
import { Chain, type ChainEvents, type ExecutionContext, type RouteChain } from "./chain.ts"
import { RouteRun } from "./route-run.ts"
import { lostTooOften, Suspects, suspectAll } from "./suspects.ts"
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
  readonly context: Omit<ExecutionContext, "storage" | "signal" | "settings" | "formatKey">
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

interface RunEvents {
  drained(output: Json): void
  failed(fault: Fault): void
  /** Another process owns the partition. */
  fenced(): void
  /** The store returned an impossible result, or this code has a bug. */
  broken(error: unknown): void
  progressed(message: string): void
}

/** The number of dead letters read at a time: bodies may be a megabyte each. */
const PAGE = 50

export class PipelineRun {
  readonly pipeline: string
  readonly #parts: RunParts
  readonly #progress: PipelineProgress
  readonly #routes: readonly RouteRun[]
  readonly #commits: GroupCommit
  readonly #backpressure: Backpressure
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
  /** While it drains: called when a delivery has ended, or endings were collected. */
  #checkIdle: (() => void) | null = null

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
    this.#backpressure = new Backpressure(plan, this.#progress)
    const { signal } = this.#abort
    const context: ExecutionContext = {
      ...parts.context,
      storage,
      settings,
      signal,
      submit: (workflow, input, key) =>
        waitForRoom(() => parts.context.submit(workflow, input, key), { ...parts.context, signal }),
      formatKey: ({ route, seq }) => `${plan.routes[route]!.name}:${seq}`,
    }
    this.#routes = plan.routes.map((_, position) => this.#routeAt(position, context))
    this.#commits = new GroupCommit({
      ...{ plan, settings, storage, random, progress: this.#progress, suspects: this.#suspects },
      head: { fence, execution: execution.execution },
      commit: execution.commit,
      metrics: () => liveMetrics(this.#routes),
      store: parts.store,
      retry: parts.retry,
      now: context.now,
      after: context.after,
      collected: () => this.#checkIdle?.(),
      durable: commit => this.#durable(commit),
      fenced: () => this.#leave(() => parts.events.fenced()),
      refused: error => this.#broken(error),
    })
  }

  /** A message that is in flight, or whose end is not durable yet. */
  live(key: MessageKey): LiveMessage | null {
    const pending = this.#commits.pending(key)
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
      chain: this.#createChain(position, context),
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

  #createChain(position: number, context: ExecutionContext): (events: ChainEvents) => RouteChain {
    const plan = this.#parts.plan.routes[position]!
    if (plan.runOn === "workers")
      return events => this.#parts.remoteChain({ position, plan, context }, events)
    const prepared = prepareRoute(plan, this.#parts)
    return events => new Chain({ position, plan, prepared }, context, events)
  }

  async start(): Promise<void> {
    const guilty = this.#progress.isOpen ? suspectAll(this.#suspects, this.#progress, this.#parts) : []
    for (const suspect of guilty) this.#commits.giveUp(suspect, lostTooOften(this.#parts.lossLimit))
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
      await this.#mustHaveArtifacts(message)
      this.#commits.begin(message)
      if (this.#commits.isFull) await this.#committed()
      if (this.#isHalted) return
    }
    this.#progress.isBegun = true
    await this.#committed()
  }

  /** Throws E807: what a definition or a dead letter refers to may be gone, or may never have been there. */
  async #mustHaveArtifacts(message: InitialMessage): Promise<void> {
    const hashes = referencesIn([message])
    const fault = hashes.length === 0 ? null : await this.#parts.context.artifactFault(hashes)
    if (fault !== null) throw new UmbraError("E807", fault.message)
  }

  /**
   * The job was retried after it had failed on `max_dead_letters`. Not retried: dead letters that another job
   * replays, and messages that exceeded the hop limit (E704), which would only exceed it again.
   */
  async #retryDeadLetters(): Promise<void> {
    const { store, execution } = this.#parts
    for (let after: MessageKey | undefined; ; ) {
      const page = await store.listDeadLetters({ execution: execution.execution, limit: PAGE, after })
      for (const letter of page) {
        if (letter.replayedBy !== null || (JSON.parse(letter.error) as Fault).code === "E704") continue
        this.#commits.retryDead(letter)
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
    this.#commits.request()
    return new Promise(resolve => {
      this.#whenOpened = resolve
    })
  }

  #mayBegin(position: number): boolean {
    if (this.#isHalted || this.#commits.fault !== null || this.#commits.isFull) return false
    return this.#backpressure.hasRoomBehind(position)
  }

  #ended(ending: Ending | null): void {
    // After a stop this result is not needed: the next owner delivers the message again.
    if (ending !== null && !this.#isOver) this.#commits.add(ending)
    this.#checkIdle?.()
  }

  #durable(commit: PipelineCommit): void {
    const { fault } = this.#commits
    if (fault !== null) {
      this.#leave(() => this.#parts.events.failed(fault))
      return
    }
    for (const [route, messages] of byRoute(commit.messages))
      this.#routes[route]!.arrived(messages, messages.at(-1)!.seq)
    this.#noteParked(commit)
    this.#whenOpened?.()
    for (const route of this.#routes) route.pump()
    this.#finishIfDrained()
  }

  #noteParked({ parked, unparked }: PipelineCommit): void {
    const routes = new Set<RouteRun>()
    for (const { route, seq } of [...parked, ...unparked]) {
      const run = this.#routes[route]!
      run.queue.settled(seq)
      routes.add(run)
    }
    for (const { queue } of routes) queue.pollRetries()
  }

  #finishIfDrained(): void {
    // Over the limit, its dead letters are about to be retried, or the commit that fails it is in flight.
    if (this.#isHalted || this.#progress.isOverLimit) return
    if (!this.#commits.isEmpty || !isDrained(this.#progress)) return
    const fault = deadLetterFault(this.#parts.plan, this.#progress, true)
    if (fault !== null) {
      this.#commits.exceed(fault)
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
    const idle = new Promise<void>(resolve => {
      this.#checkIdle = () => {
        if (this.#commits.isEmpty && this.#routes.every(({ inHand }) => inHand === 0)) resolve()
      }
    })
    this.#checkIdle?.()
    await within(this.#parts.context, graceMs, idle)
    await within(this.#parts.context, graceMs, this.stop())
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
      this.#commits.close()
      await this.#commits.idle()
    }
    await this.#commits.stop()
  }

  #reportMetrics(): void {
    const { context, settings, events } = this.#parts
    if (this.#isHalted || settings.metricsSeconds === 0) return
    this.#cancelMetrics = context.after(settings.metricsSeconds * 1000, () => {
      this.#commits.request()
      events.progressed(summary(this.#routes))
      this.#reportMetrics()
    })
  }
}

const byRoute = (messages: readonly MessageRow[]) => groupBy(messages, ({ route }) => route)

/** Which route waits for which: a message begins only while the queues behind its route have room. */
class Backpressure {
  readonly #plan: PipelinePlan
  readonly #progress: PipelineProgress
  readonly #behind: readonly (readonly number[])[]

  constructor(plan: PipelinePlan, progress: PipelineProgress) {
    this.#plan = plan
    this.#progress = progress
    this.#behind = routesBehind(plan.routes)
  }

  hasRoomBehind(route: number): boolean {
    return this.#behind[route]!.every(target => {
      const { maxQueued } = this.#plan.routes[target]!.backpressure
      const progress = this.#progress.routes[target]!
      // The exact number is computed only where it can matter.
      return progress.tail - progress.settled.upTo < maxQueued || unsettled(progress) < maxQueued
    })
  }
}

/** The metrics of an execution: stored with its progress, so that any process can show them. */
function liveMetrics(routes: readonly RouteRun[]): JsonObject {
  return {
    routes: routes.map(({ inFlight, retrying, limit, breakers, metrics }) => ({
      in_flight: inFlight,
      ...(retrying === 0 ? {} : { retrying }),
      concurrency: limit,
      rate: metrics.rate,
      latency_ms: metrics.latencyMs,
      ...(breakers.some(state => state !== null) ? { breakers } : {}),
    })),
  }
}

/** The output of an execution that has drained. */
function totals(routes: readonly RouteRun[]): PipelineTotals {
  return {
    routes: Object.fromEntries(
      routes.map(({ plan, progress }) => [
        plan.name,
        {
          messages: progress.tail,
          done: progress.done,
          failed: progress.dead,
          failed_tries: progress.failedTries,
          dead_lettered: progress.dead,
        },
      ]),
    ),
  }
}

/** A summary for people who watch the job: `fetch 12/40 (1 dead, http_fetch open), store 9/12`. */
function summary(routes: readonly RouteRun[]): string {
  return routes
    .map(({ plan, progress: { done, tail, dead }, breakers }) => {
      const open = breakers.flatMap((state, i) => (state === "open" ? `${plan.adapters[i]!.type} open` : []))
      const trouble = [...(dead === 0 ? [] : [`${dead} dead`]), ...open]
      return `${plan.name} ${done}/${tail}${trouble.length === 0 ? "" : ` (${trouble.join(", ")})`}`
    })
    .join(", ")
}

type InitialContext = Pick<RunParts, "plan" | "store" | "names" | "isReplay" | "context">

/**
 * The initial messages of an execution: the dead letters that it replays, or those of its definition. The
 * same in every process.
 */
async function* initialMessages(of: InitialContext): AsyncGenerator<InitialMessage> {
  if (of.isReplay) {
    yield* deadLetters(of)
    return
  }
  const scope = { names: { ...of.names }, node: () => undefined, nodeIds: () => [] }
  for (const { route, body } of of.plan.init) yield { route, body: JSON.stringify(body.render(scope)) }
}

async function* deadLetters({ store, context: { jobId } }: InitialContext): AsyncGenerator<InitialMessage> {
  let after: (MessageKey & { readonly execution: number }) | undefined
  for (;;) {
    const page = await store.readReplayed({ replayedBy: jobId, limit: PAGE, after })
    if (after === undefined && page.length === 0)
      throw new UmbraError(
        "E708",
        `The dead letters that job ${jobId} was to begin with no longer exist: their job was removed.`,
      )
    for (const { route, body } of page) yield { route, body }
    after = page.at(-1)
    if (page.length < PAGE) return
  }
}
