import { apply } from "../apply/apply.ts"
import { abortedStart, findAborted, readyAt, shownAttempt } from "../attempt-times.ts"
import type { AttemptAborted, Fact, Ran, SignalReceived, Waiting } from "../facts.ts"
import { executionsFullIn, type Fault, lostTooOften } from "../faults.ts"
import type { JsonObject } from "../json.ts"
import type { Graph } from "../plan.ts"
import {
  CANCELLED,
  COMPLETED,
  type EndedAttempt,
  FAILED,
  findTask,
  type JobState,
  newJobState,
  QUEUED,
  SKIPPED,
  type TaskRef,
} from "../state.ts"
import { abortReason } from "./reasons.ts"

/**
 * The history of a node's attempts, or of an item's, read from the facts on request: nothing of it is kept in
 * `JobState`. It shows what facts record: an attempt that has run for less than a second has no start yet.
 */
export interface AttemptView {
  /** As the node shows it. An attempt that was handed over, or may not have begun, has the number of the next one. */
  readonly attempt: number
  /** null: it has not ended. */
  readonly outcome: EndedAttempt["outcome"] | "completed" | "skipped" | null
  readonly queued_at: number
  /** null: its handler did not begin, or this is not known. */
  readonly started_at: number | null
  readonly ended_at: number | null
  /** How long its handler ran. */
  readonly duration_ms: number | null
  /** From when it was ready, or the retry was due, until its handler began; a wait for a place among the executions included. */
  readonly queued_ms: number | null
  /** The part of `queued_ms` in which the worker already held the task; null: not known. */
  readonly held_ms: number | null
  readonly worker: string | null
  readonly error: Pick<Fault, "code" | "message" | "details"> | null
  /** For a cancelled attempt: why. */
  readonly reason: string | null
  readonly usage: { readonly [key: string]: number } | null
  /** Its waits, in order. */
  readonly waits: readonly AttemptWait[]
}

/** `until`: null: it still waits. `executions`: for a place among the executions of pipelines. */
export interface AttemptWait {
  readonly kind: "retry" | "executions" | "paused" | "slot" | "items" | Waiting["kind"]
  readonly from: number
  readonly until: number | null
  /** For a slot and an operation. */
  readonly provider?: string
  readonly external_id?: string
  /** For a signal: its name, and who sent it. */
  readonly name?: string
  readonly by?: string
  /** For a child job. */
  readonly job_id?: string
}

export interface AttemptHistory {
  /** The newest, in the order in which they were queued. */
  readonly attempts: readonly AttemptView[]
  readonly total: number
}

/** The maximum number of attempts in a history: the newest. */
const MAX_ATTEMPTS = 100

/** A generator: a caller with many facts can yield to other work between two of them. */
export function* attemptHistory(
  graph: Graph,
  facts: Iterable<{ readonly fact: Fact }>,
  of: TaskRef,
  seen: Seen,
): Generator<undefined, AttemptHistory, undefined> {
  const state = newJobState(graph)
  const history = new HistoryBuilder(of)
  for (const { fact } of facts) {
    const before = findTask(state, of)
    const fence = before?.state.attempt[before.position]
    const { paused } = state
    apply(state, fact)
    if (paused !== null && state.paused === null) history.resumed(paused.at, fact.at)
    const place = findTask(state, of)
    if (place !== null && place.position < place.state.nodeStatus.length)
      history.add(place.state, place.position, { fact, fence, job: state })
    yield
  }
  return history.view(state, seen)
}

interface Seen {
  /** Retry times up to this count as due. */
  readonly now: number
  /** When the handler of the open attempt began, if it runs and no fact records it yet. */
  readonly begunAt: number | null
}

type Draft = { -readonly [K in keyof Omit<AttemptView, "waits">]: AttemptView[K] } & {
  waits: { -readonly [K in keyof AttemptWait]: AttemptWait[K] }[]
  /** When its handler returned a wait. */
  ranUntil: number | null
  /** The number of the attempt in facts. */
  readonly fence: number
}

class HistoryBuilder {
  readonly #of: TaskRef
  readonly #ended: Draft[] = []
  #open: Draft | null = null
  /** When an attempt that changed its owner before it began was first queued. */
  #queuedAt: number | null = null
  #total = 0

  constructor(of: TaskRef) {
    this.#of = of
  }

  /** `state`: after the fact, of the job or of the node's list; `fence`: the attempt's number before it. */
  add(
    state: JobState,
    node: number,
    { fact, fence, job }: { fact: Fact; fence: number | undefined; job: JobState },
  ): void {
    if (fact.type === "attempt_aborted") {
      if (isAbout(fact, this.#of)) this.#aborted(job, fact)
      return
    }
    const open = this.#open
    if (open !== null && isAbout(fact, this.#of) && hasNoPlace(fact)) {
      // It continues to wait: no attempt has ended.
      if (open.waits.at(-1)?.kind !== "executions")
        open.waits.push({ kind: "executions", from: fact.at, until: null })
      return
    }
    if (open !== null) {
      if (isAbout(fact, this.#of)) note(open, fact)
      else reported(open, { usage: usageWhenEnded(fact, this.#of) })
      const isOver = fence !== undefined && fence !== state.attempt[node]
      const status = state.nodeStatus[node]
      if (isOver) this.#end(state, node, { fact, last: state.lastAttempts.get(node) })
      else if (status !== undefined && endings[status] !== undefined) this.#end(state, node, { fact })
      if (open.outcome === "cancelled") open.reason ??= abortReason(job)
    }
    const last = this.#ended.at(-1)
    // Its child job was cancelled after the attempt had ended.
    if (fact.type === "job_settled" && last !== undefined)
      for (const child of fact.used ?? [])
        if (child.node === this.#of.node && child.item === this.#of.item) reported(last, child)
    if (this.#open === null && state.nodeStatus[node] === QUEUED) this.#queue(state, node)
  }

  /** The pause of the job has ended. */
  resumed(from: number, until: number | null): void {
    const open = this.#open
    if (open === null || open.ranUntil !== null || open.waits.some(wait => !isPutOff(wait))) return
    const ready = open.waits.findLast(({ kind }) => kind === "retry")?.until ?? open.queued_at
    if (until === null || ready < until)
      open.waits.push({ kind: "paused", from: Math.max(from, ready), until })
  }

  view(state: JobState, { now, begunAt }: Seen): AttemptHistory {
    const place = findTask(state, this.#of)
    if (state.paused !== null && begunAt === null && place !== null && isReady(place, now))
      this.resumed(state.paused.at, null)
    if (this.#open !== null && place !== null) {
      begun(this.#open, place.state, place.position)
      const until = this.#open.started_at ?? begunAt
      for (const wait of this.#open.waits)
        if (isPutOff(wait)) {
          const end = wait.until !== null && wait.until <= now ? wait.until : null
          wait.until = until === null ? end : Math.min(end ?? until, until)
        }
    }
    const all = this.#open === null ? this.#ended : [...this.#ended, this.#open]
    return {
      attempts: all.slice(-MAX_ATTEMPTS).map(({ ranUntil: _, fence: _fence, ...attempt }) => attempt),
      total: this.#total,
    }
  }

  #queue(state: JobState, node: number): void {
    const queued_at = this.#queuedAt ?? state.queuedAt[node]!
    const ready = this.#queuedAt ?? readyAt(state, node)
    this.#total++
    this.#open = {
      attempt: shownAttempt(state, node),
      outcome: null,
      queued_at,
      started_at: null,
      ended_at: null,
      duration_ms: null,
      queued_ms: null,
      held_ms: null,
      worker: null,
      error: null,
      reason: null,
      usage: null,
      waits: ready > queued_at ? [{ kind: "retry", from: queued_at, until: ready }] : [],
      ranUntil: null,
      fence: state.attempt[node]!,
    }
  }

  /** `job`: after the fact. */
  #aborted(job: JobState, fact: AttemptAborted & { readonly at: number }): void {
    const ended = this.#ended.find(({ fence }) => fence === fact.attempt)
    const run = findAborted(job, fact)
    if (ended === undefined || run === null) return
    reported(ended, fact)
    if (fact.ran_ms === undefined) return
    if (ended.started_at === null) started(ended, abortedStart(run, fact.ran_ms, fact.at), fact.worker)
    if (ended.outcome !== "lost") ended.duration_ms = fact.ran_ms
  }

  /** `last`: of an attempt after which the node was queued again. */
  #end(state: JobState, node: number, { fact, last }: { fact: Fact; last?: EndedAttempt | undefined }): void {
    const open = this.#open!
    if (last === undefined) begun(open, state, node)
    else started(open, last.startedAt, last.worker)
    open.outcome = last?.outcome ?? endings[state.nodeStatus[node]!] ?? "cancelled"
    open.ended_at = fact.at
    const isLost = open.outcome === "lost" || open.error?.code === lostTooOften
    // When its process died is not known: the fact was written when the death was noticed.
    if (open.started_at !== null && !isLost) open.duration_ms = (open.ranUntil ?? fact.at) - open.started_at
    for (const wait of open.waits) wait.until = Math.min(wait.until ?? fact.at, fact.at)
    this.#open = null
    this.#queuedAt = null
    if (open.started_at === null && (open.outcome === "lost" || open.outcome === "handed_over")) {
      // It had not begun: the next owner dispatches the same attempt.
      this.#queuedAt = open.queued_at
      this.#total--
      return
    }
    this.#ended.push(open)
    if (this.#ended.length > MAX_ATTEMPTS) this.#ended.shift()
  }
}

const endings: readonly (AttemptView["outcome"] | undefined)[] = Object.assign([], {
  [COMPLETED]: "completed",
  [SKIPPED]: "skipped",
  [FAILED]: "failed",
  [CANCELLED]: "cancelled",
})

function begun(open: Draft, state: JobState, node: number): void {
  started(open, state.startedAt[node] || null, state.workers[node] ?? null)
}

function started(open: Draft, at: number | null, worker: string | null): void {
  open.started_at = at
  open.worker = worker
  if (at === null) return
  // A handler that had begun before the pause was not stopped by it.
  open.waits = open.waits.filter(({ kind, from }) => kind !== "paused" || from < at)
  const putOff = open.waits.filter(isPutOff)
  for (const wait of putOff) wait.until = Math.min(wait.until ?? at, at)
  const retry = putOff.findLast(({ kind }) => kind === "retry")
  open.queued_ms = at - (retry?.until ?? open.queued_at)
}

/** Waits before the handler begins. */
function isPutOff({ kind }: AttemptWait): boolean {
  return kind === "retry" || kind === "executions" || kind === "paused"
}

/** Its time has come, and no handler is known to have begun. */
function isReady({ state, position }: { readonly state: JobState; readonly position: number }, now: number) {
  return state.nodeStatus[position] === QUEUED && (state.retryAt.get(position) ?? 0) <= now
}

function hasNoPlace(fact: Fact): boolean {
  return (
    (fact.type === "node_failed" || fact.type === "item_failed") &&
    fact.postponed === true &&
    executionsFullIn(fact.fault) !== null
  )
}

/** Does the fact name this node, or this item of it? */
function isAbout(fact: Fact, { node, item }: TaskRef): boolean {
  if (!("node" in fact) || fact.node !== node || fact.type === "job_expired") return false
  return ("item" in fact ? fact.item : undefined) === item
}

/** The usage of the attempt when a fact about something else ended it. */
function usageWhenEnded(fact: Fact, of: TaskRef): JsonObject | undefined {
  if (!("running" in fact)) return undefined
  return fact.running?.find(({ node, item }) => node === of.node && item === of.item)?.usage
}

function note(open: Draft, fact: Fact): void {
  const { at } = fact
  switch (fact.type) {
    case "slot_awaited":
      open.waits.push({ kind: "slot", provider: fact.provider, from: at, until: null })
      break
    case "slot_granted":
      closeWait(open, at)
      break
    case "signal_received":
      answered(open, fact)
      break
    case "node_expanded":
      open.waits.push({ kind: "items", from: at, until: null })
      break
    case "node_waiting":
    case "item_waiting":
      reported(open, fact)
      open.ranUntil = at
      open.waits.push({ ...waitFields(fact.waiting), from: at, until: null })
      break
    case "node_failed":
    case "item_failed": {
      const { code, message, details } = fact.fault
      open.error = { code, message, ...(details === undefined ? {} : { details }) }
      reported(open, fact)
      closeWait(open, at)
      break
    }
    case "node_completed":
    case "item_completed":
      reported(open, fact)
  }
}

function reported(
  open: Draft,
  { ran_ms, held_ms = 0, usage }: Ran & { readonly usage?: JsonObject | undefined },
): void {
  if (ran_ms !== undefined) open.held_ms = held_ms
  if (usage === undefined) return
  const sums: Record<string, number> = { ...open.usage }
  for (const [key, amount] of Object.entries(usage))
    if (typeof amount === "number") sums[key] = (sums[key] ?? 0) + amount
  open.usage = sums
}

function answered(open: Draft, { at, by }: SignalReceived & { readonly at: number }): void {
  const wait = open.waits.at(-1)
  if (wait?.until !== null || wait.kind !== "signal") return
  wait.until = at
  if (by !== undefined) wait.by = by
}

function closeWait(open: Draft, at: number): void {
  const wait = open.waits.at(-1)
  if (wait?.until === null) wait.until = at
}

function waitFields(waiting: Waiting): Omit<AttemptWait, "from" | "until"> {
  switch (waiting.kind) {
    case "timer":
      return { kind: "timer" }
    case "signal":
      return { kind: "signal", name: waiting.name }
    case "child":
      return { kind: "child", job_id: waiting.job_id }
    case "external":
      return { kind: "external", provider: waiting.provider, external_id: waiting.external_id }
  }
}
