/**
 * Builds one commit from the results of deliveries: acknowledgements, emitted messages with their numbers,
 * lineage, parked messages. Changes the progress to its state after the commit is durable.
 */
import { retryDelay, wholeTime } from "../../core/decide/backoff.ts"
import type { Fault } from "../../core/faults.ts"
import type { PipelineProgress, RouteProgress } from "../../core/pipeline/progress.ts"
import type { PipelinePlan, RoutePlan } from "../../definition/pipeline/plan.ts"
import type {
  Attempt,
  Invocation,
  MessageKey,
  NewMessageRow,
  ParkedRow,
  PipelineCommit,
} from "../../journal/port/pipelines.ts"
import { messageName } from "../message-names.ts"
import type { Delivery, Emitted, Ending, InitialMessage } from "./delivery.ts"

type Rows = Pick<PipelineCommit, "messages" | "lineage" | "parked" | "unparked" | "stored">

export class CommitBuilder implements Rows {
  readonly messages: NewMessageRow[] = []
  readonly lineage: Attempt[] = []
  readonly parked: ParkedRow[] = []
  readonly unparked: MessageKey[] = []
  readonly stored: { readonly key: string; readonly value: string }[] = []
  /** A message of a route without dead letters failed permanently. */
  #messageFault: Fault | null = null
  /** `max_dead_letters` is exceeded; contains the number of dead letters so far. */
  #limitFault: Fault | null = null
  readonly #plan: PipelinePlan
  readonly #progress: PipelineProgress
  readonly #now: number
  readonly #random: () => number

  constructor(
    plan: PipelinePlan,
    progress: PipelineProgress,
    given: { readonly now: number; readonly random: () => number },
  ) {
    this.#plan = plan
    this.#progress = progress
    this.#now = given.now
    this.#random = given.random
  }

  /** Why the execution fails with this commit. */
  get fault(): Fault | null {
    return this.#messageFault ?? this.#limitFault
  }

  /** Adds an initial message. */
  begin({ route, body }: InitialMessage): void {
    this.#progress.roots += 1
    this.#add({ route, parent: null, root: this.#progress.roots, hops: 0, body })
  }

  settle(ending: Ending): void {
    const { delivery, members, result } = ending
    if ("fault" in result) {
      this.#fail(delivery, ending.invocations, result.fault)
      for (const member of members) this.#fail(member.delivery, member.invocations, result.fault)
      return
    }
    this.#acknowledge(delivery)
    for (const member of members) {
      this.#acknowledge(member.delivery)
      this.#record(member.delivery, member.invocations, this.#send(member.delivery, member.emitted))
    }
    this.#record(delivery, ending.invocations, this.#send(delivery, result.emitted))
    for (const change of result.stored) this.stored.push(change)
  }

  /** Adds a message that is not delivered again, taken from the queue or from the retries. */
  giveUp({ attempts = 0, ...key }: MessageKey & { readonly attempts?: number }, fault: Fault): void {
    const { progress, plan } = this.#findRoute(key)
    if (progress.settled.has(key.seq)) progress.waiting -= 1
    else progress.settled.add(key.seq)
    if (!plan.deadLetter) this.#failJob(key, progress, fault)
    this.#park(key, { attempts, dueAt: plan.deadLetter ? null : this.#now, fault })
  }

  #findRoute({ route }: MessageKey): { readonly plan: RoutePlan; readonly progress: RouteProgress } {
    return { plan: this.#plan.routes[route]!, progress: this.#progress.routes[route]! }
  }

  #acknowledge(delivery: Delivery): void {
    const { progress } = this.#findRoute(delivery)
    progress.done += 1
    if (delivery.dueAt !== null) {
      progress.waiting -= 1
      this.unparked.push({ route: delivery.route, seq: delivery.seq })
    } else progress.settled.add(delivery.seq)
  }

  #fail(delivery: Delivery, invocations: readonly Invocation[], fault: Fault): void {
    const { plan, progress } = this.#findRoute(delivery)
    const attempts = delivery.attempts + 1
    this.#record(delivery, invocations, null)
    progress.failedTries += 1
    if (delivery.dueAt !== null) progress.waiting -= 1
    else progress.settled.add(delivery.seq)
    // Each block of `maxAttempts` tries ends with a last one: after a retry of the job the message has as
    // many tries again.
    const isLast = !fault.retryable || attempts % plan.retry.maxAttempts === 0
    if (isLast && !plan.deadLetter) this.#failJob(delivery, progress, fault)
    const dueAt = isLast ? (plan.deadLetter ? null : this.#now) : this.#dueAt(plan, attempts, fault)
    this.#park(delivery, { attempts, dueAt, fault })
  }

  /** Names the message that caused the failure among thousands: there is no dead letter to inspect. */
  #failJob(key: MessageKey, progress: RouteProgress, fault: Fault): void {
    progress.fatal += 1
    const name = messageName(this.#plan, key)
    this.#messageFault ??= { ...fault, message: `Message ${name} failed permanently: ${fault.message}` }
  }

  #dueAt({ retry }: RoutePlan, attempts: number, { retry_after_seconds: asked = 0 }: Fault): number {
    const failures = attempts % retry.maxAttempts
    return wholeTime(this.#now + Math.max(asked * 1000, retryDelay(retry, failures, this.#random())))
  }

  #park(
    { route, seq }: MessageKey,
    state: { readonly attempts: number; readonly dueAt: number | null; readonly fault: Fault },
  ): void {
    const { attempts, dueAt, fault } = state
    const progress = this.#progress.routes[route]!
    if (dueAt === null) {
      progress.dead += 1
      this.#checkLimit()
    } else progress.waiting += 1
    this.parked.push({ route, seq, attempts, dueAt, at: this.#now, error: JSON.stringify(fault) })
  }

  #checkLimit(): void {
    const fault = deadLetterFault(this.#plan, this.#progress, false)
    if (fault !== null) this.exceed(fault)
  }

  /** `max_dead_letters` is exceeded. */
  exceed(fault: Fault): void {
    this.#progress.isOverLimit = true
    this.#limitFault = fault
  }

  /** Parks a dead letter for an immediate retry, with as many tries as before. */
  retryDead({ route, seq, attempts, error }: MessageKey & { attempts: number; error: string }): void {
    const progress = this.#progress.routes[route]!
    progress.dead -= 1
    progress.waiting += 1
    this.parked.push({ route, seq, attempts, dueAt: this.#now, at: this.#now, error })
  }

  /** Returns what each adapter emitted, in the format of the lineage. */
  #send(delivery: Delivery, emitted: readonly Emitted[]): Attempt["emitted"] {
    if (emitted.length === 0) return null
    const byAdapter = new Map<number, EmittedRanges>()
    const parent = { route: delivery.route, seq: delivery.seq }
    for (const each of emitted) {
      const hops = delivery.hops + (each.isContinuation ? 0 : 1)
      const seq = this.#add({ route: each.route, parent, root: delivery.root, hops, body: each.body })
      this.#bound(each, { route: each.route, seq }, hops)
      const ranges = byAdapter.get(each.adapter) ?? new EmittedRanges()
      byAdapter.set(each.adapter, ranges)
      ranges.add(each.route, seq)
    }
    return new Map([...byAdapter].map(([adapter, ranges]) => [adapter, ranges.text]))
  }

  /** A message that would circulate for ever is stored as a dead letter and delivered to no route. */
  #bound(emitted: Emitted, key: MessageKey, hops: number): void {
    const { maxHops } = this.#plan
    if (emitted.isContinuation || maxHops === null || hops <= maxHops) return
    const message = `The message has passed ${maxHops} routes since its initial message (max_hops), and was about to enter another one.`
    this.#progress.routes[key.route]!.settled.add(key.seq)
    this.#park(key, { attempts: 0, dueAt: null, fault: { code: "E704", message, retryable: false } })
  }

  #add(message: Omit<NewMessageRow, "seq" | "at">): number {
    const seq = ++this.#progress.routes[message.route]!.tail
    this.messages.push({ ...message, seq, at: this.#now })
    return seq
  }

  #record(
    { route, seq, attempts }: Delivery,
    invocations: readonly Invocation[],
    emitted: Attempt["emitted"],
  ): void {
    this.lineage.push({ route, seq, attempt: attempts + 1, invocations, emitted })
  }
}

/**
 * `1:5-9,2:7`: by route, because the messages that one message emits to several routes are numbered
 * separately in each.
 */
class EmittedRanges {
  readonly #byRoute = new Map<number, { from: number; to: number }[]>()

  add(route: number, seq: number): void {
    const ranges = this.#byRoute.get(route)
    const last = ranges?.at(-1)
    if (ranges === undefined) this.#byRoute.set(route, [{ from: seq, to: seq }])
    else if (last!.to === seq - 1) last!.to = seq
    else ranges.push({ from: seq, to: seq })
  }

  get text(): string {
    const parts: string[] = []
    for (const [route, ranges] of this.#byRoute)
      for (const { from, to } of ranges) parts.push(`${route}:${from === to ? from : `${from}-${to}`}`)
    return parts.join(",")
  }
}

/** `max_dead_letters` of a pipeline: when an execution fails because too many of its messages failed. */
/**
 * null: the limit is kept. A share can be evaluated only when the execution has drained: the very first
 * message may fail.
 */
export function deadLetterFault(
  { maxDeadLetters: limit, routes }: PipelinePlan,
  progress: PipelineProgress,
  isDrained: boolean,
): Fault | null {
  if (limit === null) return null
  if (limit > 0 && limit < 1) return isDrained ? shareFault(limit, routes, progress) : null
  const dead = progress.routes.reduce((sum, route) => sum + route.dead, 0)
  return dead > limit
    ? fault(`${messages(dead)} failed permanently, and max_dead_letters allows ${limit}.`)
    : null
}

function shareFault(limit: number, routes: PipelinePlan["routes"], progress: PipelineProgress): Fault | null {
  const position = progress.routes.findIndex(({ dead, tail }) => dead > limit * tail)
  if (position < 0) return null
  const { dead, tail } = progress.routes[position]!
  const { name } = routes[position]!
  return fault(
    `${dead} of ${messages(tail)} of route "${name}" failed permanently, and max_dead_letters allows a share of ${limit}.`,
  )
}

const messages = (n: number): string => (n === 1 ? "1 message" : `${n} messages`)

function fault(message: string): Fault {
  return {
    code: "E712",
    message: `${message} See the causes with \`umbra dead-letters\`; a retry of the job tries them again.`,
    retryable: false,
  }
}
