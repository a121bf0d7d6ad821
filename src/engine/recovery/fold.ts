import { apply } from "../../core/apply/apply.ts"
import type { Fact, JobSubmitted, ListSource, NodeExpanded } from "../../core/facts.ts"
import type { Json } from "../../core/json.ts"
import { groupBy } from "../../core/maps.ts"
import {
  type JobState,
  LargeOutput,
  largeParts,
  newJobState,
  type Output,
  wholeOutput,
} from "../../core/state.ts"
import { isBusy, resetEarliestTimer, wakeAt } from "../../core/timers.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"
import type { FactRow, Journal } from "../../journal/port/journal.ts"
import { atOnce, inTurns, type Work } from "../../turns.ts"
import { partitionOf } from "../ids.ts"
import { usageKey } from "../owner/job-result.ts"
import { decodeFact, type JobPhase, type LiveJob, newLiveJob, phaseOf } from "../owner/live-job.ts"
import type { Plans } from "../plans.ts"

/** A job, folded from its journal. */
export interface FoldedJob {
  readonly plan: Plan
  readonly state: JobState
  readonly facts: readonly { readonly seq: number; readonly fact: Fact }[]
  readonly lastSeq: number
  /** As in `LiveJob`. */
  readonly turnSeq: number
  /** Length of the facts, as text. */
  readonly size: number
}

export interface LoadParts {
  readonly journal: Journal
  readonly plans: Plans
  readonly largeOutputBytes: number
}

/** Facts of several jobs, by job, oldest first. */
export async function readJobs(parts: LoadParts, ids: readonly string[]): Promise<Map<string, FactRow[]>> {
  const rows = await parts.journal.readFacts(ids, { inlineBytes: parts.largeOutputBytes })
  return groupBy(rows, ({ jobId }) => jobId)
}

export async function decodeRows(
  parts: LoadParts,
  rows: readonly FactRow[],
): Promise<{ seq: number; fact: Fact }[]> {
  const large = new Map<number, Fact>()
  for (const row of rows) if (row.data === null) large.set(row.seq, await decodeLarge(parts, row))
  return inTurnsIfMany(rows, function* () {
    const facts: { seq: number; fact: Fact }[] = []
    for (const { data, ...row } of rows) {
      const fact = data === null ? large.get(row.seq)! : decodeFact({ ...row, data })
      facts.push({ seq: row.seq, fact })
      yield
    }
    return facts
  })
}

/** A list of 100,000 items takes a second or more. Short lists are processed synchronously: they delay no one. */
export function inTurnsIfMany<T>(facts: readonly unknown[], work: () => Work<T>): T | Promise<T> {
  return facts.length < MANY ? atOnce(work()) : inTurns(work())
}

const MANY = 1000

/** A job's facts with the plan that they belong to. */
export async function readJob(
  parts: LoadParts,
  rows: readonly FactRow[],
): Promise<Pick<FoldedJob, "plan" | "facts">> {
  const facts = await decodeRows(parts, rows)
  const submitted = facts[0]?.fact as (Fact & JobSubmitted) | undefined
  if (submitted?.type !== "job_submitted")
    throw new UmbraError("E507", `Job ${rows[0]?.jobId} does not begin with its submission.`)
  const plan = await parts.plans.get(submitted.owner, submitted.workflow, submitted.workflow_version)
  return { plan, facts }
}

export async function foldJob(parts: LoadParts, rows: readonly FactRow[]): Promise<FoldedJob> {
  const { plan, facts } = await readJob(parts, rows)
  const state = newJobState(plan)
  const turn: Turn = { seq: facts[0]!.seq, phase: "open" }
  for (let next = 0; next < facts.length; ) {
    const { fact, seq } = facts[next]!
    if (lacksItems(state, fact)) {
      apply(state, await withItems(parts, rows[0]!.jobId, state, fact))
      noteTurn(turn, state, seq)
      next++
    } else next = await inTurnsIfMany(facts, () => applyFacts(state, facts, next, turn))
  }
  resetEarliestTimer(state)
  const size = rows.reduce((sum, { bytes }) => sum + bytes, 0)
  return { plan, state, facts, lastSeq: rows.at(-1)!.seq, turnSeq: turn.seq, size }
}

/** The last fact so far with which the job began, ended, was retried or deleted. */
interface Turn {
  seq: number
  phase: JobPhase
}

function noteTurn(turn: Turn, state: JobState, seq: number): void {
  const phase = phaseOf(state)
  if (phase === turn.phase) return
  turn.phase = phase
  turn.seq = seq
}

/** Applies facts up to one that needs something from the store. Returns its index. */
function* applyFacts(state: JobState, facts: FoldedJob["facts"], from: number, turn: Turn): Work<number> {
  for (let next = from; next < facts.length; next++) {
    const { fact, seq } = facts[next]!
    if (lacksItems(state, fact)) return next
    apply(state, fact)
    noteTurn(turn, state, seq)
    yield
  }
  return facts.length
}

/** The list consists of outputs of other items, and some of them are too large for memory. */
function lacksItems(state: JobState, fact: Fact): fact is Fact & NodeExpanded {
  const source = fact.type === "node_expanded" ? fact.items_of : undefined
  return source !== undefined && "node" in source && largeParts(state.outputs[source.node]).length > 0
}

async function withItems(
  { journal }: LoadParts,
  jobId: string,
  state: JobState,
  fact: Fact & NodeExpanded,
): Promise<Fact> {
  const { node } = fact.items_of as ListSource & { readonly node: number }
  const items = await readWhole(state.outputs[node]!, seq => readOutput(journal, jobId, seq))
  return { ...fact, items: items as readonly Json[] }
}

/** An output that is not in memory, read from its fact. */
export async function readOutput(journal: Journal, jobId: string, seq: number): Promise<Json> {
  const data = await journal.readFact(jobId, seq)
  if (data === null) throw new UmbraError("E507", `Fact ${seq} of job ${jobId} does not exist any more.`)
  return (JSON.parse(data) as { readonly output: Json }).output
}

/** An output with its large parts read. Parts leave memory as they become durable: a part that was in memory may be evicted at the second read. */
export async function readWhole(output: Output, read: (seq: number) => Promise<Json>): Promise<Json> {
  const parts = new Map<number, Json>()
  for (;;) {
    const missing = largeParts(output).filter(({ seq }) => !parts.has(seq))
    if (missing.length === 0) return wholeOutput(output, ({ seq }) => parts.get(seq)!)
    for (const { seq } of missing) parts.set(seq, await read(seq))
  }
}

/** Reads a fact that is too large to keep, decodes it, and leaves the large part in the store. */
async function decodeLarge(parts: LoadParts, row: FactRow): Promise<Fact> {
  const data = await parts.journal.readFact(row.jobId, row.seq)
  if (data === null)
    throw new UmbraError("E507", `Fact ${row.seq} of job ${row.jobId} does not exist any more.`)
  const fact = decodeFact({ ...row, data })
  if (fact.type !== "node_completed" && fact.type !== "item_completed") return fact
  return { ...fact, output: new LargeOutput(row.seq, row.bytes) as never }
}

/** `alarm`: the time in its row when the row was found to be due. */
export function toLiveJob(id: string, folded: FoldedJob, alarm?: number): LiveJob {
  const { plan, state, lastSeq, turnSeq, facts, size } = folded
  const { at } = facts.at(-1)!.fact
  const alarms = { wakeAt: currentAlarm(state, alarm), used: usageKey(state) }
  const projected = { status: state.status, updatedAt: at, ...alarms }
  const partition = partitionOf(id)
  return newLiveJob({ id, partition, plan, state, seq: lastSeq, turnSeq, at, size, projected })
}

/**
 * The time that its row has now. The job was due, and is idle with another time: either the row is early, or the job was
 * in memory while the store was queried, did what was due, and was parked with a new row.
 */
function currentAlarm(state: JobState, alarm = wakeAt(state)): NonNullable<LiveJob["projected"]>["wakeAt"] {
  return isBusy(state) || alarm === wakeAt(state) ? alarm : undefined
}
