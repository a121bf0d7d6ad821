import { apply } from "../../core/apply/apply.ts"
import type { Fact, ListSource, NodeExpanded } from "../../core/facts.ts"
import type { Json } from "../../core/json.ts"
import { groupBy } from "../../core/maps.ts"
import {
  type JobPhase,
  type JobState,
  jobPhase,
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
import { readReused, resultIn } from "../forks/reused.ts"
import { jobPartition } from "../ids.ts"
import { usageKey } from "../owner/job-result.ts"
import { decodeFact, type LiveJob, newLiveJob } from "../owner/live-job.ts"
import type { QueuedFacts } from "../owner/queued-facts.ts"
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
  /** Absent: all facts are in the store alone. */
  readonly queuedFacts?: Pick<QueuedFacts, "get">
}

/** Facts of several jobs, by job, oldest first. */
export async function readJobs(parts: LoadParts, ids: readonly string[]): Promise<Map<string, FactRow[]>> {
  const found = new Map<string, FactRow[]>()
  const stored: string[] = []
  for (const id of ids) {
    const queued = parts.queuedFacts?.get(id)
    if (queued === undefined) stored.push(id)
    else found.set(id, [queued])
  }
  if (stored.length === 0) return found
  const rows = groupBy(
    await parts.journal.readFacts(stored, { inlineBytes: parts.largeOutputBytes }),
    ({ jobId }) => jobId,
  )
  for (const [id, ofJob] of rows) found.set(id, ofJob)
  return found
}

export function decodeRows(
  parts: LoadParts,
  rows: readonly FactRow[],
): NumberedFact[] | Promise<NumberedFact[]> {
  if (rows.length >= MANY || rows.some(({ data }) => data === null)) return decodeMany(parts, rows)
  return rows.map(row => ({ seq: row.seq, fact: decodeFact(row as FactRow & { data: string }) }))
}

interface NumberedFact {
  readonly seq: number
  readonly fact: Fact
}

async function decodeMany(parts: LoadParts, rows: readonly FactRow[]): Promise<NumberedFact[]> {
  const large = new Map<number, Fact>()
  for (const row of rows) if (row.data === null) large.set(row.seq, await decodeLarge(parts, row))
  return inTurnsIfMany(rows, function* () {
    const facts: NumberedFact[] = []
    for (const row of rows) {
      const { seq, data } = row
      facts.push({ seq, fact: data === null ? large.get(seq)! : decodeFact({ ...row, data }) })
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

type ReadJob = Pick<FoldedJob, "plan" | "facts">

/** A job's facts with the plan that they belong to. A promise only if something must be read first. */
export function readJob(parts: LoadParts, rows: readonly FactRow[]): ReadJob | Promise<ReadJob> {
  const facts = decodeRows(parts, rows)
  return facts instanceof Promise
    ? facts.then(decoded => withPlan(parts, decoded, rows))
    : withPlan(parts, facts, rows)
}

function withPlan(
  { plans }: LoadParts,
  facts: ReadJob["facts"],
  rows: readonly FactRow[],
): ReadJob | Promise<ReadJob> {
  const first = facts[0]?.fact
  if (first?.type !== "job_submitted")
    throw new UmbraError("E507", `Job ${rows[0]?.jobId} does not begin with its submission.`)
  const plan = plans.ofJob(first)
  return plan instanceof Promise ? plan.then(compiled => ({ plan: compiled, facts })) : { plan, facts }
}

type Applied = (state: JobState, seq: number) => void

/** A promise only if something must be read first, or if it takes long. `applied` is called after each fact. */
export function foldJob(
  parts: LoadParts,
  rows: readonly FactRow[],
  applied?: Applied,
): FoldedJob | Promise<FoldedJob> {
  const read = readJob(parts, rows)
  return read instanceof Promise
    ? read.then(job => foldFacts(parts, job, rows, applied))
    : foldFacts(parts, read, rows, applied)
}

function foldFacts(
  parts: LoadParts,
  read: ReadJob,
  rows: readonly FactRow[],
  applied?: Applied,
): FoldedJob | Promise<FoldedJob> {
  const first = read.facts[0]!.fact
  const isFork = first.type === "job_submitted" && first.fork !== undefined
  if (read.facts.length >= MANY || isFork) return foldInTurns(parts, read, rows, applied)
  const state = newJobState(read.plan)
  const turn: Turn = { seq: read.facts[0]!.seq, phase: "open" }
  for (const { fact, seq } of read.facts) {
    if (lacksItems(state, fact)) return foldInTurns(parts, read, rows, applied)
    apply(state, fact)
    noteTurn(turn, state, seq)
    applied?.(state, seq)
  }
  return folded(read, state, rows, turn)
}

async function foldInTurns(
  parts: LoadParts,
  read: ReadJob,
  rows: readonly FactRow[],
  applied?: Applied,
): Promise<FoldedJob> {
  const { plan, facts } = read
  const state = newJobState(plan)
  const turn: Turn = { seq: facts[0]!.seq, phase: "open" }
  let next = 0
  const first = facts[0]!.fact
  if (first.type === "job_submitted" && first.fork !== undefined) {
    apply(state, first)
    await readReused(parts, state, first.fork)
    noteTurn(turn, state, facts[0]!.seq)
    applied?.(state, facts[0]!.seq)
    next = 1
  }
  while (next < facts.length) {
    const { fact, seq } = facts[next]!
    if (lacksItems(state, fact)) {
      apply(state, await withItems(parts, rows[0]!.jobId, state, fact))
      noteTurn(turn, state, seq)
      applied?.(state, seq)
      next++
    } else next = await inTurnsIfMany(facts, () => applyFacts(state, facts, next, { turn, applied }))
  }
  return folded(read, state, rows, turn)
}

function folded({ plan, facts }: ReadJob, state: JobState, rows: readonly FactRow[], turn: Turn): FoldedJob {
  resetEarliestTimer(state)
  let size = 0
  for (const { bytes } of rows) size += bytes
  return { plan, state, facts, lastSeq: rows.at(-1)!.seq, turnSeq: turn.seq, size }
}

/** The last fact so far with which the job began, ended, was retried or deleted. */
interface Turn {
  seq: number
  phase: JobPhase
}

function noteTurn(turn: Turn, state: JobState, seq: number): void {
  const phase = jobPhase(state)
  if (phase === turn.phase) return
  turn.phase = phase
  turn.seq = seq
}

/** Applies facts up to one that needs something from the store. Returns its index. */
function* applyFacts(
  state: JobState,
  facts: FoldedJob["facts"],
  from: number,
  { turn, applied }: { readonly turn: Turn; readonly applied?: Applied | undefined },
): Work<number> {
  for (let next = from; next < facts.length; next++) {
    const { fact, seq } = facts[next]!
    if (lacksItems(state, fact)) return next
    apply(state, fact)
    noteTurn(turn, state, seq)
    applied?.(state, seq)
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
  const items = await readWhole(state.outputs[node]!, large => readOutput(journal, jobId, large))
  return { ...fact, items: items as readonly Json[] }
}

/** An output that is not in memory, read from its fact. `jobId`: the job whose state has it. */
export async function readOutput(journal: Journal, jobId: string, large: LargeOutput): Promise<Json> {
  const { seq, jobId: holder = jobId } = large
  const data = await journal.readFact(holder, seq)
  if (data === null) throw new UmbraError("E507", `Fact ${seq} of job ${holder} does not exist any more.`)
  return resultIn(data)
}

/** An output with its large parts read. Parts leave memory as they become durable: a part that was in memory may be evicted at the second read. */
export async function readWhole(output: Output, read: (large: LargeOutput) => Promise<Json>): Promise<Json> {
  const parts = new Map<number, Json>()
  for (;;) {
    const missing = largeParts(output).filter(({ seq }) => !parts.has(seq))
    if (missing.length === 0) return wholeOutput(output, ({ seq }) => parts.get(seq)!)
    for (const large of missing) parts.set(large.seq, await read(large))
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
  const partition = jobPartition(id)
  return newLiveJob({ id, partition, plan, state, seq: lastSeq, turnSeq, at, size, projected })
}

/**
 * The `wakeAt` of its row; undefined: not known. If a job was due and is idle with another time, either its row is
 * early, or the job was in memory while the store was queried, did what was due, and was parked with a new row.
 */
function currentAlarm(state: JobState, alarm = wakeAt(state)): NonNullable<LiveJob["projected"]>["wakeAt"] {
  return isBusy(state) || alarm === wakeAt(state) ? alarm : undefined
}
