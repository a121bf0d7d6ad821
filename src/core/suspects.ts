import { wholeMs } from "./attempt-times.ts"
import type { DecisionContext } from "./commands.ts"
import type { Fact, TasksLost } from "./facts.ts"
import type { Fault } from "./faults.ts"
import type { JobState, Start, Suspect } from "./state.ts"

/**
 * Which node is to blame when a process dies (docs/decisions/0033-suspects-run-alone.md). The same rules hold for items.
 *
 * 1. A node that was in flight in a process that died is announced: its next start is durable before its handler runs.
 * 2. A node that was known to run there is isolated: a process runs one isolated node at a time.
 * 3. A death counts against a node only if it ran alone. The node is blamed after `lossLimit` such deaths without another
 *    node's death alone in between; if there was one, the cause is assumed to be outside, and the limit is three times as high.
 * 4. The end of an attempt, whatever its outcome, clears its node.
 */

const innocent: Suspect = { isolated: false, deaths: 0, streak: 0, begunAt: 0, diedAt: 0, joined: 0 }

/** A suspect that runs this long is joined by the next one; the time doubles each time. */
const aloneSeconds = 60
const mostDoublings = 6

/** The suspicion against a node after its process died; `start`: of the attempt that was lost, if it is known. */
function suspectAfter(
  before: Suspect = innocent,
  start: Start | undefined,
  { at, resumes }: { readonly at: number; readonly resumes: boolean },
): Suspect {
  if (start === undefined) return before
  // A node that resumes (a pipeline) finds the cause by itself. For the other nodes of its process it is another possible cause.
  if (resumes) return { ...before, begunAt: start.at, diedAt: at }
  if (start.alone !== true) return { ...before, isolated: true }
  const streak = start.contested === true ? 1 : before.streak + 1
  return { ...before, isolated: true, deaths: before.deaths + 1, streak, begunAt: start.at, diedAt: at }
}

/** Does the loss of its current attempt exceed the limit? */
export function isBlamed(state: JobState, node: number, { now, lossLimit }: DecisionContext): boolean {
  const start = state.started.get(node)
  const resumes = state.graph.nodes[node]!.resumes === true
  if (start?.alone !== true || resumes) return false
  const { deaths, streak } = suspectAfter(state.suspects.get(node), start, { at: now, resumes })
  return streak >= lossLimit || deaths >= 3 * lossLimit
}

export function lostTooOften(state: JobState, node: number, context: DecisionContext): Fact {
  const deaths = (state.suspects.get(node)?.deaths ?? 0) + 1
  const times = deaths === 1 ? "once" : `${deaths} times`
  const fault: Fault = {
    code: "E417",
    message: `The process running this node died ${times} while it ran this node and no other suspected node; the node is not retried.`,
    retryable: false,
    details: { deaths },
  }
  return { type: "node_failed", at: context.now, node, attempt: state.attempt[node]!, fault }
}

/** The fact for the start of an attempt, or for others joining it. null: it is known already. */
export function startFact(
  state: JobState,
  command: {
    readonly node: number
    readonly attempt: number
    readonly worker: string
    readonly alone?: boolean | undefined
    readonly announced?: true | undefined
    readonly ranMs?: number | undefined
  },
  { now: at, otherDiedAt = Number.NEGATIVE_INFINITY }: DecisionContext,
): Fact | null {
  const { node, attempt, worker, alone, announced, ranMs } = command
  const ran = ranMs === undefined ? {} : { ran_ms: wholeMs(ranMs) }
  const started = { type: "node_started", at, node, attempt, worker, ...ran } as const
  const known = state.started.get(node)
  if (alone === false) return known?.alone === true ? { ...started, joined: true } : null
  if (known !== undefined) return null
  const begins = announced === undefined ? started : { ...started, announced }
  if (alone === undefined) return begins
  const { deaths, begunAt } = state.suspects.get(node) ?? innocent
  const isContested = deaths > 0 && otherDiedAt >= begunAt
  return { ...begins, alone, ...(isContested ? { contested: true } : {}) }
}

export function foldStart(state: JobState, fact: Extract<Fact, { type: "node_started" }>): void {
  const { node, at, worker, alone, announced, contested, joined } = fact
  const known = state.started.get(node)
  if (joined === true && known !== undefined) {
    state.started.set(node, { at: known.at, worker })
    const suspect = state.suspects.get(node)
    if (suspect !== undefined) state.suspects.set(node, { ...suspect, joined: suspect.joined + 1 })
    return
  }
  state.started.set(node, {
    at: state.startedAt[node] || at,
    worker,
    ...(alone && { alone }),
    ...(contested && { contested }),
    ...(announced && { announced }),
  })
}

/** The process that had the node's attempt has died. */
export function foldLoss(state: JobState, node: number, fact: TasksLost & { readonly at: number }): void {
  const start = state.started.get(node)
  const resumes = state.graph.nodes[node]!.resumes === true
  state.suspects.set(node, suspectAfter(state.suspects.get(node), start, { at: fact.at, resumes }))
}

/** How the node's next attempt must run; undefined: beside any others. */
export interface Isolation {
  /** When its process last died with it alone; 0: never. The one that died last runs last. */
  readonly diedAt: number
  readonly deaths: number
  /** How long it runs alone before the next suspect may join it. */
  readonly seconds: number
}

export function taskIsolation({ suspects }: JobState, node: number): Isolation | undefined {
  const suspect = suspects.size === 0 ? undefined : suspects.get(node)
  if (suspect === undefined || !suspect.isolated) return undefined
  const { diedAt, deaths, joined } = suspect
  return { diedAt, deaths, seconds: aloneSeconds * 2 ** Math.min(joined, mostDoublings) }
}
