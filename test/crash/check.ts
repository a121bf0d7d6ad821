/**
 * What must hold after any number of kills, from three witnesses: what was acknowledged, which executions were logged
 * by the handlers themselves, and what the journal says.
 */
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { childJobId } from "../../src/engine/ids.ts"
import { Plans } from "../../src/engine/plans.ts"
import type { FoldedJob } from "../../src/engine/recovery/fold.ts"
import { Queries } from "../../src/jobs/queries.ts"
import type { JobPage, JobRow, Journal } from "../../src/journal/port/journal.ts"
import type { Shape, Workload } from "./workload.ts"

export interface Verdict {
  readonly jobs: number
  readonly children: number
  readonly executions: number
  /** Executions whose outcome was lost with their process: the at-least-once of handlers. */
  readonly repeated: number
  readonly violations: readonly string[]
}

export async function check(parts: {
  readonly journal: Journal
  readonly folder: string
  readonly workload: Workload
}): Promise<Verdict> {
  const executions = await readExecutions(parts.folder)
  const judged = await judgeJobs({
    ...parts,
    executed: (row, folded, shape) => ranAgain(executions.get(row.id) ?? [], folded, shape),
  })
  const all = [...executions.values()].flat().filter(line => line.what === "start")
  const distinct = new Set(all.map(({ job, node }) => `${job}/${node}`))
  return { ...judged, executions: all.length, repeated: all.length - distinct.size }
}

/** Every acknowledged job with its children, by the journal and by `executed`, which knows what the handlers say. */
export async function judgeJobs(parts: {
  readonly journal: Journal
  readonly folder: string
  readonly workload: Workload
  readonly executed: (row: JobRow, folded: FoldedJob, shape: Shape) => readonly string[]
}): Promise<Pick<Verdict, "jobs" | "children" | "violations">> {
  const { journal, folder, workload, executed } = parts
  const queries = new Queries({
    journal,
    plans: new Plans(journal),
    largeOutputBytes: Number.MAX_SAFE_INTEGER,
    live: () => undefined,
    now: Date.now,
  })
  const acknowledged = await readAcknowledged(folder)
  const violations = [...acknowledged.violations]
  const rows = await allJobs(journal)
  const top = [...rows.values()].filter(row => row.parentId === null).length
  if (top !== workload.jobs.length)
    violations.push(`${workload.jobs.length} jobs were submitted, ${top} are stored`)
  const judge = async (row: JobRow, shape: Shape) => {
    const folded = await queries.fold(row.id)
    return [
      ...outcome(row, shape),
      ...(row.wakeAt === null ? [] : ["has ended and not told its relatives"]),
      ...(await queries.verify(row)),
      ...acceptedTwice(folded),
      ...executed(row, folded, shape),
    ]
  }
  const judgeFamily = async (row: JobRow, shape: Shape): Promise<string[]> => {
    const found = await judge(row, shape)
    for (const [node, child] of shape.children) {
      const position = shape.definition.nodes.findIndex(({ id }) => id === node)
      const childRow = rows.get(childJobId(row.id, position))
      if (childRow !== undefined && shape.status === "COMPLETED")
        found.push(...(await judgeFamily(childRow, child)).map(violation => `${node}: ${violation}`))
      else if (childRow === undefined ? shape.status === "COMPLETED" : childRow.finishedAt === null)
        found.push(`its child for ${node} is ${childRow === undefined ? "missing" : "not ended"}`)
    }
    return found
  }
  for (const [index, shapeIndex] of workload.jobs.entries()) {
    const id = acknowledged.ids.get(index)
    const row = id === undefined ? undefined : rows.get(id)
    if (row === undefined) {
      violations.push(`job ${index} (${id}) is lost`)
      continue
    }
    const found = await judgeFamily(row, workload.shapes[shapeIndex]!)
    violations.push(...found.map(violation => `job ${index} (${row.id}): ${violation}`))
  }
  return { jobs: top, children: rows.size - top, violations }
}

function outcome(row: JobRow, shape: Shape): string[] {
  if (row.status !== shape.status) return [`is ${row.status}, not ${shape.status}: ${row.error}`]
  if (row.error?.includes('"E417"'))
    return [`an innocent node is blamed for the death of its process: ${row.error}`]
  if (row.status === "FAILED") return []
  const expected = JSON.stringify(shape.output)
  return row.output === expected ? [] : [`its output is ${row.output}, not ${expected}`]
}

/** At most one completion per node, and never one of an attempt that was not the current one. */
function acceptedTwice({ facts, plan }: FoldedJob): string[] {
  const done = new Set<string>()
  const violations: string[] = []
  for (const { fact } of facts) {
    if (fact.type !== "node_completed" && fact.type !== "node_skipped" && fact.type !== "item_completed")
      continue
    const name = nameOf(plan, fact)
    if (done.has(name)) violations.push(`node ${name} was completed twice`)
    done.add(name)
  }
  return violations
}

/** An item is `id[item]`, as in the log of executions. */
export function nameOf(plan: FoldedJob["plan"], { node, item }: { node: number; item?: number }): string {
  const { id } = plan.nodes[node]!
  return item === undefined ? id : `${id}[${item}]`
}

/**
 * Attempts only rise, each runs at most once, and the completed one is the last: so whatever ran after the completion
 * was durable shows as a later attempt, the same attempt again, or an earlier one out of order.
 */
function ranAgain(lines: readonly Execution[], { facts, plan }: FoldedJob, shape: Shape): string[] {
  const violations: string[] = []
  const completedBy = new Map<string, number>()
  for (const { fact } of facts)
    if (fact.type === "node_completed" || fact.type === "item_completed")
      completedBy.set(nameOf(plan, fact), fact.attempt)
  const latest = new Map<string, number>()
  const ended = new Set<string>()
  for (const { what, node, attempt } of lines) {
    if (what === "end") {
      ended.add(node)
      continue
    }
    if (attempt <= (latest.get(node) ?? 0)) violations.push(`attempt ${attempt} of ${node} ran again`)
    latest.set(node, attempt)
    const completed = completedBy.get(node)
    if (completed !== undefined && attempt > completed)
      violations.push(`${node} ran (attempt ${attempt}) after attempt ${completed} had completed it`)
    for (const parent of shape.dependencies.get(node.replace(/\[\d+\]$/, "")) ?? [])
      if (shape.executed.has(parent) && !ended.has(parent))
        violations.push(`${node} ran before its dependency ${parent}`)
  }
  for (const node of shape.executed) if (!ended.has(node)) violations.push(`${node} never ran to its end`)
  return violations
}

async function allJobs(journal: Journal): Promise<Map<string, JobRow>> {
  const rows = new Map<string, JobRow>()
  for (let after: string | undefined; ; ) {
    const { jobs, next }: JobPage = await journal.listJobs({ limit: 500, after })
    for (const row of jobs) rows.set(row.id, row)
    if (next === null) return rows
    after = next
  }
}

export async function readAcknowledged(folder: string) {
  const ids = new Map<number, string>()
  const violations: string[] = []
  for (const line of await readLines(join(folder, "acknowledged.log"))) {
    const [what, index, id] = line.split(" ")
    const known = ids.get(Number(index))
    if (what === "submitted" && known === undefined) ids.set(Number(index), id!)
    else if (known !== id) violations.push(`job ${index} was acknowledged as ${known} and as ${id}`)
  }
  return { ids, violations }
}

interface Execution {
  readonly what: string
  readonly job: string
  readonly node: string
  readonly attempt: number
}

/** By job, in the order they were written. */
async function readExecutions(folder: string): Promise<Map<string, Execution[]>> {
  const byJob = new Map<string, Execution[]>()
  for (const line of await readLines(join(folder, "executions.log"))) {
    const [what, job, node, attempt] = line.split(" ")
    const lines = byJob.get(job!) ?? []
    lines.push({ what: what!, job: job!, node: node!, attempt: Number(attempt) })
    byJob.set(job!, lines)
  }
  return byJob
}

async function readLines(file: string): Promise<string[]> {
  return (await readFile(file, "utf8")).split("\n").filter(line => line !== "")
}
