/**
 * One execution in the process that owns its job (P2): its routes, its commits, and when it is over.
 *
 * 1. One commit is the acknowledgement of messages, what they emitted, and their lineage.
 * 2. It is over when nothing is queued, in hand or waiting for another try, and all of that is durable.
 * 3. Stopped at any moment, everything that is needed to go on is in the store.
 */
import type { Fault } from "../core/faults.ts"
import type { Json } from "../core/json.ts"
import {
  decodeProgress,
  encodeProgress,
  isDrained,
  newProgress,
  type PipelineProgress,
  type Suspicion,
  unsettled,
} from "../core/pipeline/progress.ts"
import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import type { ExecutionRow, MessageRow, PipelineCommit, PipelineStore } from "../journal/pipeline-store.ts"
import type { PartitionEpoch } from "../journal/port.ts"
import type { RetryFigures } from "../journal/retry.ts"
import { lostTooOften, suspectAll } from "./aftermath.ts"
import { Assembly } from "./assembly.ts"
import type { ExecutionScene } from "./chain.ts"
import { Commits } from "./commits.ts"
import type { Ending } from "./delivery.ts"
import { initialMessages } from "./initial.ts"
import { liveFigures, summary, totals } from "./figures.ts"
import { type Adapters, prepareRoute, type ScopeNames } from "./prepared-adapter.ts"
import { RouteRun } from "./route-run.ts"
import { Suspects } from "./suspects.ts"
import type { PipelineSettings } from "./settings.ts"
import type { SecretSource } from "../worker/secrets.ts"
import { writersThatWait } from "./flow.ts"

export interface RunParts {
  readonly plan: PipelinePlan
  readonly execution: ExecutionRow
  readonly fence: PartitionEpoch
  readonly store: PipelineStore
  readonly retry: RetryFigures
  readonly settings: PipelineSettings
  readonly adapters: Adapters
  readonly names: ScopeNames
  readonly secrets: SecretSource
  readonly scene: Omit<ExecutionScene, "signal" | "settings" | "nameOf">
  readonly random: () => number
  /** Deaths of a process while a message was tried after which it is not tried any more. */
  readonly lossLimit: number
  readonly events: RunEvents
}

export interface RunEvents {
  drained(output: Json): void
  failed(fault: Fault): void
  /** Somebody else has the partition. */
  fenced(): void
  /** The store, or this code, is not what it should be. */
  broken(error: unknown): void
  progressed(message: string): void
}

const DRAIN_LOOK_MS = 5

export class PipelineRun {
  readonly #parts: RunParts
  readonly #progress: PipelineProgress
  readonly #routes: readonly RouteRun[]
  readonly #commits: Commits
  readonly #abort = new AbortController()
  readonly #storage: ExecutionScene["storage"]
  /** By route: those behind it, which it waits for when they have too much queued. */
  readonly #behind: readonly (readonly number[])[]
  readonly #suspects = new Suspects({
    announce: () => this.#commits.schedule(),
    inHand: () => this.#routes.reduce((sum, { inHand }) => sum + inHand, 0),
  })
  /** What waits for the commit on its way. */
  #begins: readonly (() => void)[] = []
  #endings: Ending[] = []
  #commit: number
  #isStopped = false
  #isOver = false
  /** A commit is wanted although nothing has ended: for its figures, or to say that nobody has it in hand any more. */
  #isAsked = false
  #cancelFigures: (() => void) | null = null
  /** Nothing is in hand any more, or only what is stopped. */
  #isClosed = false

  constructor(parts: RunParts) {
    const { plan, execution, store, settings, names, secrets, adapters } = parts
    this.#parts = parts
    this.#storage = parts.scene.storage
    this.#commit = execution.commit
    this.#progress =
      execution.progress === null ? newProgress(plan.routes.length) : decodeProgress(execution.progress)
    this.#behind = writersThatWait(plan)
    const scene: ExecutionScene = {
      ...parts.scene,
      settings,
      signal: this.#abort.signal,
      nameOf: ({ route, seq }) => `${plan.routes[route]!.name}:${seq}`,
    }
    this.#routes = plan.routes.map((route, position) => {
      const prepared = prepareRoute(route, { adapters, names, secrets })
      return new RouteRun({
        ...{ position, plan: route, prepared, scene },
        progress: this.#progress.routes[position]!,
        inlet: {
          store,
          execution: execution.execution,
          pageBytes: settings.pageBytes,
          now: scene.now,
          after: scene.after,
          broken: error => this.#broken(error),
        },
        mayBegin: () => this.#mayBegin(position),
        ended: ending => this.#ended(ending),
        suspects: this.#suspects,
      })
    })
    this.#commits = new Commits({
      store,
      retry: parts.retry,
      after: scene.after,
      events: {
        collect: () => this.#collect(),
        durable: commit => this.#durable(commit),
        fenced: () => this.#leave(() => parts.events.fenced()),
        refused: error => this.#broken(error),
      },
    })
  }

  async start(): Promise<void> {
    const guilty = this.#progress.isOpen ? suspectAll(this.#suspects, this.#progress, this.#parts) : []
    this.#progress.isOpen = true
    if (!this.#progress.isBegun) await this.#begin()
    if (guilty.length > 0) await this.#giveUp(guilty)
    if (this.#isStopped) return
    for (const route of this.#routes) {
      route.inlet.look()
      route.pump()
    }
    this.#tellFigures()
    this.#finishIfDrained()
  }

  /** What the initial messages are is decided once: they are there, all of them, or none. */
  async #begin(): Promise<void> {
    const { plan, store, names } = this.#parts
    const assembly = this.#assembly()
    for await (const { route, body, origin } of initialMessages(plan, store, {
      jobId: this.#parts.scene.jobId,
      names,
    }))
      assembly.begin(route, body, origin)
    this.#progress.isBegun = true
    await this.#openWith(assembly)
  }

  /** Nobody must get hold of them before it is durable that they are given up. */
  async #giveUp(guilty: readonly Suspicion[]): Promise<void> {
    const assembly = this.#assembly()
    for (const suspect of guilty) assembly.giveUp(suspect, lostTooOften(this.#parts.lossLimit))
    await this.#openWith(assembly)
  }

  /** Resolves when it is durable. */
  #openWith(assembly: Assembly): Promise<void> {
    this.#opening = assembly
    this.#commits.schedule()
    return new Promise<void>(resolve => {
      this.#whenOpen = resolve
    })
  }

  #opening: Assembly | null = null
  #whenOpen: (() => void) | null = null

  #assembly(): Assembly {
    const { plan, scene, random } = this.#parts
    return new Assembly(plan, this.#progress, { now: scene.now(), random })
  }

  /** Room behind the route, and not too much that is done but not durable. */
  #mayBegin(position: number): boolean {
    if (this.#isStopped || this.#endings.length >= this.#parts.settings.maxUncommitted) return false
    for (const other of this.#behind[position]!) {
      const { plan, progress } = this.#routes[other]!
      if (progress.tail - progress.settled.upTo >= plan.backpressure.maxQueued && unsettled(progress) >= plan.backpressure.maxQueued)
        return false
    }
    return true
  }

  #ended(ending: Ending): void {
    // After a stop nobody waits for it: it is delivered again by whoever comes next.
    if (this.#isOver) return
    if (!("fault" in ending.result)) this.#storage.leaving(ending.result.stored)
    this.#endings.push(ending)
    this.#commits.schedule()
  }

  #collect(): PipelineCommit | null {
    const opening = this.#opening
    this.#opening = null
    const hasNews = opening !== null || this.#endings.length > 0 || this.#suspects.isWaiting
    if (!hasNews && !this.#isAsked) return null
    this.#isAsked = false
    const assembly = opening ?? this.#assembly()
    this.#settle(assembly)
    this.#progress.suspects = this.#isClosed ? [] : this.#suspects.takeAnnounced()
    this.#begins = this.#suspects.takeBegins()
    if (assembly.fault !== null) this.#fail(assembly.fault)
    this.#progress.isOpen = !this.#isClosed
    this.#commit += 1
    return {
      fence: this.#parts.fence,
      execution: this.#parts.execution.execution,
      commit: this.#commit,
      progress: encodeProgress(this.#progress, liveFigures(this.#routes)),
      ...rowsOf(assembly),
    }
  }

  #settle(assembly: Assembly): void {
    const settled = this.#endings.splice(0, this.#parts.settings.commitMessages)
    for (const ending of settled) {
      assembly.settle(ending)
      for (const { delivery } of [ending, ...ending.members]) this.#suspects.clear(delivery)
    }
  }

  #fault: Fault | null = null

  #fail(fault: Fault): void {
    this.#fault = fault
    this.#isClosed = true
    for (const route of this.#routes) route.stop()
  }

  #durable(commit: PipelineCommit): void {
    this.#storage.durable(commit.stored)
    for (const [route, messages] of byRoute(commit.messages))
      this.#routes[route]!.arrived(messages, messages.at(-1)!.seq)
    this.#noteParked(commit)
    this.#whenOpen?.()
    for (const begin of this.#begins) begin()
    this.#begins = []
    if (this.#fault !== null) {
      const fault = this.#fault
      this.#leave(() => this.#parts.events.failed(fault))
      return
    }
    for (const route of this.#routes) route.pump()
    this.#finishIfDrained()
  }

  #noteParked({ parked, unparked }: PipelineCommit): void {
    const routes = new Set<RouteRun>()
    for (const { route, seq } of [...parked, ...unparked]) {
      const run = this.#routes[route]!
      run.inlet.tried(seq)
      routes.add(run)
    }
    for (const { inlet } of routes) inlet.look()
  }

  #finishIfDrained(): void {
    if (this.#isStopped || this.#endings.length > 0 || !isDrained(this.#progress)) return
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

  /** What is in hand goes on. */
  #halt(): void {
    this.#isStopped = true
    this.#cancelFigures?.()
    for (const route of this.#routes) route.stop()
  }

  /** Lets what is in hand end, for a while, makes it durable, and says that nothing is in hand any more. */
  async drain(graceMs: number): Promise<void> {
    this.#halt()
    const end = this.#parts.scene.now() + graceMs
    while (this.#isBusy && this.#parts.scene.now() < end) await this.#pause(DRAIN_LOOK_MS)
    // What has not ended is stopped with us, and no process has died of it.
    this.#isClosed = true
    this.#isAsked = true
    this.#commits.schedule()
    await Promise.race([this.#commits.idle(), this.#pause(graceMs)])
    await Promise.race([this.stop(), this.#pause(graceMs)])
  }

  get #isBusy(): boolean {
    return this.#endings.length > 0 || this.#routes.some(({ inHand }) => inHand > 0)
  }

  #pause(ms: number): Promise<void> {
    return new Promise(resolve => this.#parts.scene.after(ms, resolve))
  }

  /** Nobody wants the execution any more, here. Resolves when nothing of it is on its way to the store. */
  async stop(): Promise<void> {
    this.#halt()
    this.#isOver = true
    this.#abort.abort(new DOMException("The execution is stopped.", "AbortError"))
    await this.#commits.stop()
  }

  #tellFigures(): void {
    const { scene, settings, events } = this.#parts
    if (this.#isStopped || settings.figuresSeconds === 0) return
    this.#cancelFigures = scene.after(settings.figuresSeconds * 1000, () => {
      this.#isAsked = true
      this.#commits.schedule()
      events.progressed(summary(this.#routes))
      this.#tellFigures()
    })
  }
}

function rowsOf({ messages, lineage, parked, unparked, stored }: Assembly) {
  return { messages, lineage, parked, unparked, stored }
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
