/** What must hold when all jobs of a campaign have ended, from two witnesses: the provider's own log, and the journal. */
import type { Json } from "../../../src/core/json.ts"
import { Plans } from "../../../src/engine/plans.ts"
import { Queries } from "../../../src/jobs/queries.ts"
import type { JobRow, Journal } from "../../../src/journal/port/journal.ts"
import type { FakeOperation, FakeProvider } from "../../../src/testing/fake-provider.ts"
import { type Drawn, type DrawnOptions, drawn } from "./drawn.ts"

export interface Judgement {
  readonly problems: readonly string[]
  readonly operations: number
  /** Operations that were submitted more than once, always under one key. */
  readonly repeated: number
  /** Jobs whose provider said that it cannot be done. */
  readonly failed: number
  /** Webhooks that were sent, and how many of them were lies. */
  readonly webhooks: number
  readonly lies: number
}

export async function judge(parts: {
  readonly journal: Journal
  readonly fake: FakeProvider
  readonly draw: DrawnOptions
  readonly jobs: number
  readonly limit: number
}): Promise<Judgement> {
  const { journal, fake, draw, jobs, limit } = parts
  const problems: string[] = []
  const { jobs: rows } = await journal.listJobs({ limit: jobs + 1 }, { entries: 1e9, ms: 1e9 })
  if (rows.length !== jobs) problems.push(`${rows.length} jobs instead of ${jobs}`)
  const byJob = operationsByJob(fake)
  const judgeJob = jobJudge(journal)
  const seen = new Set<number>()
  for (const row of rows) {
    const operations = byJob.get(row.id) ?? []
    byJob.delete(row.id)
    const index = indexOf(operations)
    if (seen.has(index)) problems.push(`two jobs for ${index}`)
    seen.add(index)
    const found = await judgeJob(row, operations, drawn(index, draw))
    problems.push(...found.map(problem => `job ${index} (${row.id}): ${problem}`))
  }
  for (const id of byJob.keys()) problems.push(`nobody asked for ${id}`)
  problems.push(...(await capacityProblems(journal, fake, limit)))
  const lies = fake.deliveries.filter(({ isGenuine }) => !isGenuine)
  for (const { id, status } of lies)
    if (status !== null && status < 400) problems.push(`a lie about ${id} was answered with ${status}`)
  const all = [...fake.operations.values()]
  return {
    problems,
    operations: all.length,
    repeated: all.filter(({ submissions }) => submissions > 1).length,
    failed: rows.filter(({ status }) => status === "FAILED").length,
    webhooks: fake.deliveries.length,
    lies: lies.length,
  }
}

/** In the order in which they were taken. */
function operationsByJob(fake: FakeProvider): Map<string, FakeOperation[]> {
  const byJob = new Map<string, FakeOperation[]>()
  for (const operation of fake.operations.values()) {
    const id = operation.key.split("/")[0]!
    byJob.set(id, [...(byJob.get(id) ?? []), operation])
  }
  return byJob
}

function indexOf([first]: readonly FakeOperation[]): number {
  return first === undefined ? -1 : Number(String((first.request as { of: Json }).of).split("/")[0])
}

function jobJudge(journal: Journal) {
  const plans = new Plans(journal)
  const largeOutputBytes = Number.MAX_SAFE_INTEGER
  const queries = new Queries({ journal, plans, largeOutputBytes, live: () => undefined, now: Date.now })
  return async (row: JobRow, operations: readonly FakeOperation[], expected: readonly Drawn[]) => {
    const { facts } = await queries.fold(row.id)
    const completed = facts.filter(
      ({ fact }) => fact.type === "node_completed" || fact.type === "item_completed",
    )
    const wanted = expected.filter(({ output }) => output !== null).length
    const keys = operations.map(({ key }) => key).sort()
    const wantedKeys = expected.flatMap((one, item) => keysOf(row.id, one, expected.length > 1 ? item : null))
    return [
      ...outcome(row, expected),
      ...(completed.length === wanted ? [] : [`was completed ${completed.length} times, not ${wanted}`]),
      ...(keys.join() === wantedKeys.sort().join() ? [] : [`operations ${keys}, not ${wantedKeys}`]),
      ...(await queries.verify(row)),
    ]
  }
}

function keysOf(jobId: string, { scripts }: Drawn, item: number | null): string[] {
  const first = item === null ? `${jobId}/film` : `${jobId}/film/${item}`
  return scripts.map((_, n) => (n === 0 ? first : `${first}/${n}`))
}

function outcome(row: JobRow, expected: readonly Drawn[]): string[] {
  const made = expected.map(({ output }) => output?.made ?? null)
  const status = made.includes(null) ? "FAILED" : "COMPLETED"
  if (row.status !== status) return [`is ${row.status}, not ${status}: ${row.error}`]
  if (status === "FAILED") return /no film \d+/.test(row.error ?? "") ? [] : [`failed with ${row.error}`]
  const output = JSON.stringify(expected.length > 1 ? made : made[0])
  return row.output === output ? [] : [`its output is ${row.output}, not ${output}`]
}

export async function capacityProblems(
  journal: Journal,
  fake: FakeProvider,
  limit: number,
): Promise<string[]> {
  const problems: string[] = []
  const { mostAtOnce, overLimit } = fake
  if (overLimit > 0)
    problems.push(`the provider saw ${mostAtOnce} at once, ${overLimit} times over the limit ${limit}`)
  const { held, waiting, operations } = await journal.providers.overview({ provider: "fake", at: Date.now() })
  if (held.length + waiting > 0) problems.push(`${held.length} slots held and ${waiting} waiting at the end`)
  if (operations > 0) problems.push(`${operations} operations are not over`)
  return problems
}
