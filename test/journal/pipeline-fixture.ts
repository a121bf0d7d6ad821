/** Executions and their rows for the contract suite: complete, plausible, and changed only where a test says so. */
import { onTestFinished } from "vitest"
import type { Journal } from "../../src/journal/port/journal.ts"
import type {
  Attempt,
  Invocation,
  LineageRow,
  NewMessageRow,
  ParkedRow,
  PipelineCommit,
  PipelineStore,
} from "../../src/journal/port/pipelines.ts"
import { type Held, hold, newId, newJob, store } from "./fixture.ts"

export const NOW = 2_000_000

const shared = new WeakMap<Journal, Promise<Held>>()
let counter = 0

/** One partition for all tests of pipelines: there are only so many. */
export function holdForPipelines(journal: Journal): Promise<Held> {
  const held = shared.get(journal) ?? hold(journal)
  shared.set(journal, held)
  return held
}

export interface Execution {
  readonly held: Held
  readonly jobId: string
  readonly execution: number
  readonly pipelines: PipelineStore
  /** The next commit. */
  next(over?: Content): PipelineCommit
  /** The next commit, sent. */
  commit(over: Content): Promise<PipelineCommit>
}

/** A running job with its execution; ended with the test, so that it does not count against the next one's limit. */
export async function startExecution(
  journal: Journal,
  jobId = newId(),
  over: Parameters<typeof newJob>[2] = {},
): Promise<Execution> {
  const { pipelines } = journal
  const held = await holdForPipelines(journal)
  await storeJob(journal, jobId, over)
  const execution = await pipelines.claimExecution({ jobId, at: NOW, limit: 1000, claimMs: 1000 })
  if (execution === null) throw new Error("1000 executions are open")
  onTestFinished(() => pipelines.endExecution({ jobId, at: NOW }))
  let last = 0
  const next = (over: Content = {}) => commitOf(held, { execution, commit: last + 1, ...over })
  return {
    ...{ held, jobId, execution, pipelines, next },
    async commit(over) {
      const made = next(over)
      const { isHeld } = await pipelines.commit(made)
      if (!isHeld) throw new Error("the fence did not hold")
      last = made.commit
      return made
    },
  }
}

export async function storeJob(journal: Journal, id: string, over: Parameters<typeof newJob>[2] = {}) {
  const held = await holdForPipelines(journal)
  await store(journal, held, [newJob(held, ++counter, { id, ...over })])
}

/** The job has ended, by its own account. */
export async function finishJob(journal: Journal, id: string, finishedAt: number | null): Promise<void> {
  const held = await holdForPipelines(journal)
  const job = (await journal.readJob(id))!
  const status = finishedAt === null ? "PROCESSING" : "COMPLETED"
  const changedJobs = [{ ...job, seq: held.seq(++counter), status, finishedAt } as const]
  const empty = { facts: [], newJobs: [], answers: [], messages: [] }
  await journal.append({ fences: [held], ...empty, changedJobs })
}

/** The content of a commit, with its lineage by call. */
type Content = Partial<Omit<PipelineCommit, "lineage"> & { readonly lineage: readonly LineageRow[] }>

function commitOf(held: Held, { lineage = [], ...over }: Content): PipelineCommit {
  return {
    fence: { partition: held.partition, epoch: held.epoch },
    execution: 0,
    commit: 1,
    progress: `{"commit":${over.commit ?? 1}}`,
    messages: [],
    lineage: attempts(lineage),
    parked: [],
    unparked: [],
    stored: [],
    ...over,
  }
}

export function message(route: number, seq: number, over: Partial<NewMessageRow> = {}): NewMessageRow {
  return { route, seq, parent: null, root: seq, hops: 0, at: NOW, body: `{"seq":${seq}}`, ...over }
}

/** Consecutive calls of one attempt at a message belong together. */
export function attempts(rows: readonly LineageRow[]): Attempt[] {
  const found: (Attempt & { readonly invocations: Invocation[]; readonly emitted: Map<number, string> })[] =
    []
  for (const { route, seq, attempt, emitted, ...call } of rows) {
    let last = found.at(-1)
    if (last?.route !== route || last.seq !== seq || last.attempt !== attempt) {
      last = { route, seq, attempt, invocations: [], emitted: new Map() }
      found.push(last)
    }
    last.invocations.push(call)
    if (emitted !== null) last.emitted.set(call.adapter, emitted)
  }
  return found
}

export function invocation(route: number, seq: number, over: Partial<LineageRow> = {}): LineageRow {
  return {
    ...{ route, seq, attempt: 1, adapter: 0, at: NOW, durationUs: 250 },
    ...{ status: "completed", into: null, emitted: null, error: null },
    ...over,
  }
}

export function parked(route: number, seq: number, over: Partial<ParkedRow> = {}): ParkedRow {
  return { route, seq, attempts: 1, dueAt: null, at: NOW, error: '{"code":"E401"}', ...over }
}

export async function deadLettersOf(
  { pipelines }: Pick<Journal, "pipelines">,
  execution: number,
): Promise<number> {
  return (await pipelines.listDeadLetters({ execution, limit: 100_000 })).length
}

/** When the next try of a route is due; null: none waits. */
export async function nextRetryAt(
  { pipelines }: Pick<Journal, "pipelines">,
  execution: number,
  route: number,
): Promise<number | null> {
  const dueBy = Number.MAX_SAFE_INTEGER
  const [next] = await pipelines.readRetries({ execution, route, dueBy, limit: 1, maxBytes: 1 })
  return next?.dueAt ?? null
}
