/**
 * What must hold at the end, from four witnesses: what clients were told, what handlers wrote down when they ran, what the
 * provider saw, and the journal, with the times of its commits.
 */
import { join } from "node:path"
import pg from "pg"
import type { FoldedJob } from "../../src/engine/recovery/fold.ts"
import { openJournal } from "../../src/journal/open.ts"
import type { FakeProvider } from "../../src/testing/fake-provider.ts"
import { judgeJobs, nameOf, type Verdict } from "../crash/check.ts"
import { checkKept, type KeptVerdict } from "../crash/kept.ts"
import type { Shape, Workload } from "../crash/workload.ts"
import { capacityProblems } from "../provider/campaign/judge.ts"
import { type Execution, readExecutions } from "./executions.ts"
import { contentIn, SLOTS } from "./fleet.ts"

export interface ChaosVerdict extends Verdict {
  /** What is left of log lines and artifacts; its violations are among all others. */
  readonly kept: Omit<KeptVerdict, "violations">
}

export async function judge(parts: {
  readonly postgresUrl: string
  readonly folder: string
  readonly workload: Workload
  readonly fake: FakeProvider
}): Promise<ChaosVerdict> {
  const { postgresUrl, folder, workload, fake } = parts
  const executions = byJob(await readExecutions(folder))
  const commits = await commitTimes(postgresUrl)
  const journal = await openJournal(postgresUrl)
  try {
    const judged = await judgeJobs({
      ...{ journal, folder, workload },
      executed(row, folded, shape) {
        const found = [
          ...acceptedTwice(folded),
          ...ranAfterwards(executions.get(row.id) ?? [], folded, shape, seq =>
            commits.get(`${row.id}/${seq}`),
          ),
        ]
        return found.length === 0 && row.finishedAt !== null ? [] : [...found, storyOf(folded, row.wakeAt)]
      },
    })
    // While Redis or PostgreSQL is away lines wait in memory, and die with it.
    const { violations: wrong, ...kept } = await checkKept({
      ...{ journal, folder: join(folder, "kept"), content: contentIn(folder) },
      mostLostMs: Number.POSITIVE_INFINITY,
    })
    const violations = [...judged.violations, ...(await capacityProblems(journal, fake, SLOTS)), ...wrong]
    const all = [...executions.values()].flat().filter(({ what }) => what === "start")
    const distinct = new Set(all.map(({ job, node }) => `${job}/${node}`))
    return { ...judged, executions: all.length, repeated: all.length - distinct.size, violations, kept }
  } finally {
    await journal.close()
  }
}

/** For whoever looks for the cause: the rest of the store is gone with the campaign. */
function storyOf({ facts, plan }: FoldedJob, wakeAt: number | null): string {
  const lines = facts.map(({ fact: { at, type, ...rest }, seq }) => {
    const { node, item, attempt, worker, waiting, nodes, handed_over } = rest as Record<string, unknown>
    const which = typeof node === "number" ? plan.nodes[node]!.id : nodes
    const more = { item, attempt, worker, waiting, handed_over }
    return `${new Date(at).toISOString().slice(11)} ${Math.floor(seq / 2 ** 34)} ${type} ${which} ${JSON.stringify(more)}`
  })
  return `its story, to be woken at ${wakeAt}:\n    ${lines.join("\n    ")}`
}

/** One attempt has one end. */
function acceptedTwice({ facts, plan }: FoldedJob): string[] {
  const ends = new Set<string>()
  const violations: string[] = []
  for (const { fact } of facts) {
    if (!/^(node|item)_(completed|failed)$/.test(fact.type)) continue
    const of = fact as { readonly node: number; readonly item?: number; readonly attempt: number }
    const name = `attempt ${of.attempt} of ${nameOf(plan, of)}`
    if (ends.has(name)) violations.push(`${name} has ended twice`)
    ends.add(name)
  }
  return violations
}

/** The time of a commit is taken before it is flushed, and a busy machine flushes slowly. */
const FLUSH_MS = 100

function ranAfterwards(
  lines: readonly Execution[],
  { facts, plan }: FoldedJob,
  shape: Shape,
  committedAt: (seq: number) => number | undefined,
): string[] {
  const violations: string[] = []
  const done = new Map<string, { readonly attempt: number; readonly at: number }>()
  for (const { fact, seq } of facts)
    if (fact.type === "node_completed" || fact.type === "item_completed")
      done.set(nameOf(plan, fact), { attempt: fact.attempt, at: committedAt(seq) ?? Number.NaN })
  const firstEnd = new Map<string, number>()
  for (const { what, node, at } of lines)
    if (what === "end") firstEnd.set(node, Math.min(at, firstEnd.get(node) ?? Number.POSITIVE_INFINITY))
  for (const { what, node, attempt, at } of lines) {
    if (what !== "start") continue
    const completed = done.get(node)
    if (completed !== undefined) {
      if (attempt > completed.attempt)
        violations.push(
          `${node} ran (attempt ${attempt}) although attempt ${completed.attempt} had completed it`,
        )
      if (!(at <= completed.at + FLUSH_MS))
        violations.push(
          `attempt ${attempt} of ${node} began ${at - completed.at} ms after attempt ${completed.attempt} was durable`,
        )
    }
    for (const parent of shape.dependencies.get(node.replace(/\[\d+\]$/, "")) ?? [])
      if (shape.executed.has(parent) && !(at >= (firstEnd.get(parent) ?? Number.NaN)))
        violations.push(`${node} ran before its dependency ${parent}`)
  }
  for (const node of shape.executed) if (!firstEnd.has(node)) violations.push(`${node} never ran to its end`)
  return violations
}

function byJob(lines: readonly Execution[]): Map<string, Execution[]> {
  const found = new Map<string, Execution[]>()
  for (const line of lines) {
    const known = found.get(line.job)
    if (known === undefined) found.set(line.job, [line])
    else known.push(line)
  }
  return found
}

/** When completions became durable, by job and seq. */
async function commitTimes(url: string): Promise<Map<string, number>> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    const { rows } = await client.query<{ job_id: string; seq: string; at: number }>(
      `select job_id, seq, (extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000)::float8 as at
       from umbra.journal where type in ('node_completed', 'item_completed')`,
    )
    return new Map(rows.map(({ job_id, seq, at }) => [`${job_id}/${seq}`, at]))
  } finally {
    await client.end()
  }
}
