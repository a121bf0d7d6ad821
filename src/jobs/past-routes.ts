/**
 * The routes of a pipeline at a past time, from the times of its messages and of their lineage. No commit records more
 * for this: messages in flight, rates and breakers of the past are not known.
 */
import { decodeProgress } from "../core/pipeline/progress.ts"
import type { RouteView } from "../core/pipeline/view.ts"
import type { PipelinePlan } from "../definition/pipeline/plan.ts"
import type { Journal } from "../journal/port/journal.ts"
import type { DeadLetterRow, LineageRow, MessageRow, PipelineStore } from "../journal/port/pipelines.ts"

/** An execution with more messages is not counted: each would be read. */
const MOST_MESSAGES = 20_000
const PAGE = 500
const PAGE_BYTES = 4 * 1024 * 1024
const MOST_CALLS = 100_000

/** What is not recorded is null. */
export interface PastRoute
  extends Omit<RouteView, "in_flight" | "rate" | "latency_ms" | "concurrency" | "held_up_by"> {
  readonly in_flight: null
  readonly rate: null
  readonly latency_ms: null
  readonly concurrency: null
  readonly held_up_by: null
}

/** null: the execution has not begun, is too large, or its messages or lineage are not kept any more. */
export async function routesAt(
  { pipelines }: Journal,
  { jobId, pipeline, at }: { readonly jobId: string; readonly pipeline: PipelinePlan; readonly at: number },
): Promise<readonly PastRoute[] | null> {
  const execution = await pipelines.readExecution(jobId)
  if (execution === null || execution.progress === null) return null
  const { routes: tails } = decodeProgress(execution.progress)
  if (tails.reduce((sum, { tail }) => sum + tail, 0) > MOST_MESSAGES) return null
  const routes: PastRoute[] = []
  for (const [route, { name, inbound, outbound, adapters, backpressure }] of pipeline.routes.entries()) {
    const counts = await countsAt(pipelines, {
      execution: execution.execution,
      route,
      tail: tails[route]!.tail,
      at,
    })
    if (counts === null) return null
    const to = [...outbound].map(([kind, next]) => [kind, pipeline.routes[next]!.inbound])
    routes.push({
      ...{ name, inbound, outbound: Object.fromEntries(to) },
      adapters: adapters.map(({ type }) => ({ type, breaker: null })),
      ...counts,
      ...{ in_flight: null, rate: null, latency_ms: null, concurrency: null },
      ...{ max_queued: backpressure.maxQueued, held_up_by: null },
    })
  }
  return routes
}

type Counts = Pick<PastRoute, "queued" | "waiting" | "done" | "failed" | "failed_tries" | "dead_lettered">

interface RouteQuery {
  readonly execution: number
  readonly route: number
  /** How many messages its queue has received. */
  readonly tail: number
  readonly at: number
}

/** null: some are not kept any more. */
async function countsAt(store: PipelineStore, query: RouteQuery): Promise<Counts | null> {
  const { execution, route, tail, at } = query
  const dead = await deadLetters(store, query)
  const counts = { queued: 0, waiting: 0, done: 0, failed: 0, failed_tries: 0, dead_lettered: 0 }
  let found = 0
  for (let after = 0; found < tail; ) {
    const page = { execution, route, after, limit: PAGE, maxBytes: PAGE_BYTES }
    const messages: MessageRow[] = await store.readMessages(page)
    if (messages.length === 0) return null
    found += messages.length
    after = messages.at(-1)!.seq
    const there = messages.filter(message => message.at <= at)
    const calls = await readCalls(store, execution, there)
    if (calls === null) return null
    for (const { seq } of there) {
      const tries = triesBy(calls.get(seq) ?? [], at)
      counts.failed_tries += tries.failed
      const failedAt = dead.get(seq)
      if (tries.isDone) counts.done++
      else if (failedAt !== undefined && failedAt <= at) counts.dead_lettered++
      else if (tries.failed > 0) counts.waiting++
      else counts.queued++
    }
  }
  return { ...counts, failed: counts.dead_lettered }
}

async function readCalls(
  store: PipelineStore,
  execution: number,
  keys: readonly MessageRow[],
): Promise<Map<number, LineageRow[]> | null> {
  const bySeq = new Map<number, LineageRow[]>()
  if (keys.length === 0) return bySeq
  const rows = await store.readLineage({ execution, keys, limit: MOST_CALLS })
  if (rows.length === MOST_CALLS) return null
  for (const row of rows) bySeq.set(row.seq, [...(bySeq.get(row.seq) ?? []), row])
  return bySeq
}

/** The last call of an attempt shows how the attempt ended. */
function triesBy(
  calls: readonly LineageRow[],
  at: number,
): { readonly failed: number; readonly isDone: boolean } {
  const ends = new Map<number, LineageRow>()
  for (const call of calls) {
    const known = ends.get(call.attempt)
    if (known === undefined || call.adapter >= known.adapter) ends.set(call.attempt, call)
  }
  const ended = [...ends.values()].filter(call => call.at <= at)
  const failed = ended.filter(({ status }) => status === "failed").length
  return { failed, isDone: ended.length > failed }
}

async function deadLetters(
  store: PipelineStore,
  { execution, route }: RouteQuery,
): Promise<Map<number, number>> {
  const failedAt = new Map<number, number>()
  for (let after: DeadLetterRow | undefined; ; ) {
    const page: DeadLetterRow[] = await store.listDeadLetters({ execution, route, after, limit: PAGE })
    for (const { seq, failedAt: at } of page) failedAt.set(seq, at)
    if (page.length < PAGE) return failedAt
    after = page.at(-1)
  }
}
