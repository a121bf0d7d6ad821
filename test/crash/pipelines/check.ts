/**
 * What must hold of executions after anything that can happen to their processes: by the store, and by what the adapters
 * wrote down when they began.
 */
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import pg from "pg"
import { decodeProgress, type PipelineProgress } from "../../../src/core/pipeline/progress.ts"
import type { Journal } from "../../../src/journal/port/journal.ts"
import type {
  DeadLetterRow,
  LineageRow,
  MessageKey,
  MessageRow,
  PipelineStore,
} from "../../../src/journal/port/pipelines.ts"
import { forestProblems } from "../../pipeline/forest.ts"
import { readAcknowledged } from "../check.ts"
import { expectedTotals, type PipelineShape, type PipelineWorkload } from "./workload.ts"

export interface PipelineVerdict {
  readonly jobs: number
  readonly messages: number
  readonly deadLetters: number
  /** Calls of adapters that were begun … */
  readonly calls: number
  /** … and those of them whose message was delivered again, since their process died. */
  readonly repeated: number
  readonly violations: readonly string[]
}

const ALL = { limit: 10_000_000, maxBytes: 1e12 }

export async function checkPipelines(parts: {
  readonly journal: Journal
  readonly folder: string
  readonly workload: PipelineWorkload
  /** Of a PostgreSQL that keeps the times of its commits; null: one process at a time had the store. */
  readonly commitsAt: string | null
  /** A process that was stopped, and since when it goes on. */
  readonly resumed?: Resumed
}): Promise<PipelineVerdict> {
  const { journal, folder, workload, commitsAt } = parts
  const { ids, violations } = await readAcknowledged(folder)
  const calls = await readCalls(folder)
  const excused = inHand([...calls.values()].flat(), parts.resumed)
  const counts = { messages: 0, deadLetters: 0 }
  for (const [index, shapeIndex] of workload.jobs.entries()) {
    const id = ids.get(index)
    if (id === undefined) {
      violations.push(`job ${index} is lost`)
      continue
    }
    const shape = workload.shapes[shapeIndex]!
    const { status } = (await journal.readJob(id)) ?? { status: "lost" }
    if (status !== "COMPLETED") violations.push(`job ${index} (${id}) is ${status}`)
    const content = await readContent(journal.pipelines, id)
    const made = (calls.get(id) ?? []).filter(call => !excused.has(call))
    const of = { content, calls: made, names: routeNames(shape) }
    const acknowledgedAt = commitsAt === null ? lastCallOf(content) : await commitTimes(commitsAt, content)
    const found = [
      ...judgeContent(content, shape),
      ...strangers(content, index),
      ...calledAfterwards(of, acknowledgedAt),
    ]
    violations.push(...found.map(each => `job ${index} (${id}): ${each}`))
    counts.messages += content.messages.length
    counts.deadLetters += content.letters.length
  }
  const all = [...calls.values()].flat()
  const distinct = new Set(all.map(call => `${call.job} ${call.message} ${call.adapter} ${call.attempt}`))
  return { jobs: ids.size, ...counts, calls: all.length, repeated: all.length - distinct.size, violations }
}

export interface Content {
  readonly execution: number
  readonly progress: PipelineProgress
  readonly messages: readonly MessageRow[]
  readonly letters: readonly DeadLetterRow[]
  readonly lineage: readonly LineageRow[]
}

export async function readContent(store: PipelineStore, jobId: string): Promise<Content> {
  const { execution, progress: text } = (await store.readExecution(jobId))!
  const progress = decodeProgress(text!)
  const messages: MessageRow[] = []
  for (const route of progress.routes.keys())
    messages.push(...(await store.readMessages({ execution, route, after: 0, ...ALL })))
  const letters = await store.listDeadLetters({ execution, limit: ALL.limit })
  const lineage = await store.readLineage({ execution, keys: messages, limit: ALL.limit })
  return { execution, progress, messages, letters, lineage }
}

const routeNames = ({ definition }: PipelineShape) =>
  (definition.routes as { readonly name: string }[]).map(({ name }) => name)

/** All is settled, as foretold, and on record. */
function judgeContent(content: Content, shape: PipelineShape): string[] {
  const { progress, messages, letters, lineage } = content
  const violations = forestProblems(messages, lineage, letters)
  const expected = expectedTotals(shape)
  for (const [route, name] of routeNames(shape).entries()) {
    const { tail, settled, waiting, done, dead } = progress.routes[route]!
    if (settled.upTo !== tail || waiting > 0) violations.push(`${name} has not drained`)
    if (done + dead !== tail)
      violations.push(`${name}: ${done} done and ${dead} dead are not ${tail} messages`)
    const bodies = bodiesOf(messages, route)
    if (bodies.length !== tail) violations.push(`${name} has ${bodies.length} messages, and says ${tail}`)
    violations.push(...difference(`messages of ${name}`, bodies, expected.bodies.get(name) ?? bodies))
    violations.push(
      ...difference(`dead letters of ${name}`, bodiesOf(letters, route), expected.dead.get(name)!),
    )
    if (name === "grouped")
      violations.push(...difference("what was gathered", bodies.flatMap(membersOf).sort(), expected.grouped))
  }
  return violations
}

const membersOf = (body: string) => (JSON.parse(body) as { of: string[] }).of

function bodiesOf(messages: readonly MessageRow[], route: number): string[] {
  return messages
    .filter(message => message.route === route)
    .map(({ body }) => {
      const { job: _, ...rest } = JSON.parse(body) as { readonly job: number }
      return JSON.stringify(rest)
    })
    .sort()
}

/** Messages of another execution. */
function strangers({ messages }: Content, index: number): string[] {
  return messages
    .filter(({ body }) => (JSON.parse(body) as { readonly job: number }).job !== index)
    .map(({ route, seq, body }) => `${route}:${seq} is not its own: ${body}`)
}

function difference(what: string, found: readonly string[], expected: readonly string[]): string[] {
  if (found.length === expected.length && found.every((each, i) => each === expected[i])) return []
  const missing = expected.filter(each => !found.includes(each)).slice(0, 5)
  const extra = found.filter(each => !expected.includes(each)).slice(0, 5)
  return [`${what}: ${found.length}, not ${expected.length}; missing ${missing}, too many ${extra}`]
}

interface Call {
  readonly job: string
  readonly message: string
  readonly adapter: string
  readonly attempt: number
  readonly pid: number
  readonly at: number
}

export interface Resumed {
  readonly pid: number
  readonly since: number
}

/**
 * A process can be stopped between its last look at its lease and the call that follows: that one call is made when it goes
 * on, and nobody can help it. It is the first, with all messages that it gathered.
 */
function inHand(calls: readonly Call[], resumed: Resumed | undefined): ReadonlySet<Call> {
  const later = calls.filter(({ pid, at }) => pid === resumed?.pid && at >= resumed.since)
  const first = later.reduce<Call | null>(
    (found, call) => (found && found.at <= call.at ? found : call),
    null,
  )
  if (first === null || first.adapter !== "group") return new Set(first === null ? [] : [first])
  return new Set(later.filter(({ adapter, at }) => adapter === first.adapter && at === first.at))
}

/** The time of a commit is taken before it is flushed, and a busy machine flushes slowly. */
const FLUSH_MS = 100

/** No call of a message that was acknowledged, and none twice in one process. */
function calledAfterwards(
  of: { readonly content: Content; readonly calls: readonly Call[]; readonly names: readonly string[] },
  acknowledgedAt: ReadonlyMap<string, number>,
): string[] {
  const violations: string[] = []
  const seen = new Set<string>()
  for (const { message, adapter, attempt, pid, at } of of.calls) {
    if (adapter.startsWith("stranger"))
      violations.push(`${message} was delivered to another execution: ${adapter}`)
    const [name, seq] = message.split(":") as [string, string]
    const until = acknowledgedAt.get(`${of.names.indexOf(name)}:${seq}`)
    if (until !== undefined && at > until)
      violations.push(`${adapter} was called for ${message} ${at - until} ms after its acknowledgement`)
    const call = `${message} ${adapter} ${attempt} ${pid}`
    if (seen.has(call))
      violations.push(`${adapter} was called twice for attempt ${attempt} at ${message} in one process`)
    seen.add(call)
  }
  return violations
}

/** With one process after another the call that was acknowledged is the last one: until it ended. */
function lastCallOf({ lineage, letters }: Content): Map<string, number> {
  const found = new Map<string, number>()
  const note = (name: string, at: number) => found.set(name, Math.max(at, found.get(name) ?? 0))
  for (const row of lineage) note(keyName(row), row.at)
  // A gathered message ends with the call for the message that it was gathered into.
  for (const row of lineage)
    if (row.into !== null) note(keyName(row), found.get(keyName({ ...row, seq: row.into })) ?? 0)
  for (const letter of letters) found.delete(keyName(letter))
  return found
}

const keyName = ({ route, seq }: MessageKey) => `${route}:${seq}`

/** When the acknowledgements became durable: with the lineage of the last attempt. Dead letters have none. */
async function commitTimes(url: string, { execution, letters }: Content): Promise<Map<string, number>> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    const { rows } = await client.query<{ route: number; seq: string; at: number }>(
      `select route, seq, max((extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000)::float8) as at
       from umbra.pipeline_lineage where execution = $1 group by route, seq`,
      [execution],
    )
    const dead = new Set(letters.map(keyName))
    const times = rows.map(({ route, seq, at }) => [`${route}:${seq}`, at + FLUSH_MS] as const)
    return new Map(times.filter(([name]) => !dead.has(name)))
  } finally {
    await client.end()
  }
}

/** By job, as they were begun. */
export async function readCalls(folder: string): Promise<Map<string, Call[]>> {
  const byJob = new Map<string, Call[]>()
  for (const line of (await readFile(join(folder, "messages.log"), "utf8")).split("\n")) {
    const [job, message, adapter, attempt, pid, at] = line.split(" ")
    if (at === undefined) continue
    const call = {
      job: job!,
      message: message!,
      adapter: adapter!,
      attempt: Number(attempt),
      pid: Number(pid),
      at: Number(at),
    }
    const calls = byJob.get(job!)
    if (calls === undefined) byJob.set(job!, [call])
    else calls.push(call)
  }
  return byJob
}
