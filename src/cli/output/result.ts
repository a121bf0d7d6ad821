/** A job that has ended, for programs and for people. */
import type { RemoteGraph, RemoteNode } from "../../client/index.ts"
import type { DeadLettersView } from "../../core/pipeline/view.ts"
import { withLive } from "../../core/view/live-view.ts"
import type { JobSnapshot } from "../../engine/owner/snapshot.ts"
import { exitCode } from "../exit.ts"
import { count, type Paint, paintFor, printable, tookText } from "./terminal.ts"

export interface JobWithNodes {
  readonly job: JobSnapshot
  readonly graph: RemoteGraph
  readonly left: LeftDeadLetters | null
}

/** Flags for suggested commands: to find the job, and to run it. */
export interface Suggested {
  readonly flags: string
  readonly runningFlags: string
  readonly runsHere: boolean
}

/** Prints the outcome of the job. After a signal, the job may be unfinished. */
export async function report(
  jobs: { job(id: string): Promise<JobSnapshot>; graph(id: string): Promise<RemoteGraph> },
  jobId: string,
  options: Suggested & DeadLetterFlags & { readonly json?: boolean },
): Promise<number> {
  const [job, graph] = await Promise.all([jobs.job(jobId), jobs.graph(jobId).then(withLive)])
  const left = await leftDeadLetters(jobs, jobId, graph)
  process.stdout.write(
    options.json
      ? `${JSON.stringify(finalJob({ job, graph, left }), null, 2)}\n`
      : resultText({ job, graph, left }, paintFor(process.stdout), options),
  )
  return exitCodeWith(job.status, left, options)
}

/** `umbra run --json` */
function finalJob({ job, graph, left }: JobWithNodes) {
  const { job_id, status, output, error, reason, usage } = job
  const { routes } = graph
  const nodes = graph.nodes.map(nodeSummary)
  return {
    ...{ job_id, status, output, error, reason, usage, nodes },
    routes,
    dead_letters: left === null ? undefined : { count: left.count, first: left.first },
  }
}

export function nodeSummary(node: RemoteNode) {
  const { id, handler, status, attempt, max_attempts, losses, error, reason, usage } = node
  const { duration_ms, queued_ms, waited_ms } = node
  return {
    ...{ id, handler, status, attempt, max_attempts, losses, duration_ms, queued_ms, waited_ms, error },
    reason,
    usage,
  }
}

/** Empty for a normal first attempt. */
export function attemptText({
  attempt,
  max_attempts,
  losses,
}: Pick<RemoteNode, "attempt" | "max_attempts" | "losses">) {
  const nth = attempt > 1 ? `attempt ${attempt} of ${max_attempts}` : ""
  return [nth, losses > 0 ? `lost ${count(losses, "time")}` : ""].filter(Boolean).join(", ")
}

export function usageText(usage: { readonly [key: string]: number } = {}): string {
  return Object.entries(usage)
    .map(([key, amount]) => `${key} ${amount.toLocaleString("en")}`)
    .join(", ")
}

/** A longer output would scroll everything else away. */
const MOST_LINES = 40
const MOST_COLUMNS = 4000

function resultText(
  { job, graph: { routes }, left }: JobWithNodes,
  paint: Paint,
  { flags, runningFlags, runsHere, allowDeadLetters }: Suggested & DeadLetterFlags,
): string {
  const { job_id, status, finished_at } = job
  const workflow = printable(job.workflow)
  const took = finished_at === null ? "" : ` in ${tookText(job)}`
  const messages = deadLettersText(left, paint, flags)
  // The outcome of a pipeline's messages has been shown already.
  const output = routes === undefined ? outputText(job, flags) : ""
  if (status === "COMPLETED" && messages !== "") {
    const exit = allowDeadLetters
      ? ""
      : paint.dim("Exit code 1, because there are dead letters. Use --allow-dead-letters for exit code 0.\n")
    return `${paint.yellow(`⚠ ${workflow} completed with dead letters`)}${took}\n${output}${messages}${exit}`
  }
  if (status === "COMPLETED") return `${paint.green(`✓ ${workflow} completed`)}${took}\n${output}`
  const why = errorText(job) || printable(job.reason ?? "")
  const next =
    status === "FAILED" || status === "CANCELLED" || status === "EXPIRED"
      ? `Retry the job: umbra jobs retry ${job_id} --wait${runningFlags}\n`
      : runsHere
        ? `Continue the job: umbra resume${runningFlags}\n`
        : `The job continues. Follow it: umbra watch ${job_id}${flags}\n`
  const said =
    finished_at === null
      ? paint.yellow(`◔ ${workflow} is ${status}`)
      : paint.red(`✗ ${workflow} is ${status}`)
  return `${said}${took}${why === "" ? "" : `\n  ${why}`}\n${messages}${paint.dim(next)}`
}

export function errorText({ error }: Pick<JobSnapshot, "error">): string {
  if (error === null) return ""
  const item = error.item === undefined ? "" : `, item ${error.item}`
  const where = error.node === undefined ? "" : `node ${error.node}${item}: `
  return printable(`${where}${error.code} ${error.message}`)
}

/** `because of node a: E401 …` for a node that failed because of another, `item 2: E401 …` for one whose item failed. */
export function nodeErrorText({ error }: Pick<RemoteNode, "error">): string {
  if (error === null) return ""
  const { node, item, code, message } = error
  const where = [
    ...(node === undefined ? [] : [`because of node ${node}`]),
    ...(item === undefined ? [] : [`item ${item}`]),
  ].join(", ")
  return printable(`${where === "" ? "" : `${where}: `}${code} ${message}`)
}

function outputText({ job_id, output }: JobSnapshot, flags: string): string {
  const text = JSON.stringify(output, null, 2)
  const lines = text.split("\n")
  if (lines.length <= MOST_LINES && text.length <= MOST_COLUMNS) return `${text}\n`
  const shown = lines.slice(0, MOST_LINES).join("\n").slice(0, MOST_COLUMNS)
  return `${shown}\n… (${count(text.length, "character")}; all of it: umbra jobs show ${job_id} --json${flags})\n`
}

export interface DeadLetterFlags {
  readonly allowDeadLetters?: boolean
}

/** Dead letters of the job itself, or of a pipeline that one of its nodes ran. */
export interface LeftDeadLetters extends DeadLettersView {
  readonly job_id: string
}

interface Graph {
  readonly nodes: readonly { readonly handler: string; readonly child_job_id?: string | undefined }[]
  readonly dead_letters?: DeadLettersView
}

/** null: neither the job nor a node of it is a pipeline. */
export async function leftDeadLetters(
  jobs: { graph(id: string): Promise<Graph> },
  job_id: string,
  { nodes, dead_letters }: Graph,
): Promise<LeftDeadLetters | null> {
  if (dead_letters !== undefined) return { job_id, ...dead_letters }
  const found: LeftDeadLetters[] = []
  for (const { handler, child_job_id } of nodes) {
    if (handler !== "pipeline" || child_job_id === undefined) continue
    const own = (await jobs.graph(child_job_id)).dead_letters
    if (own !== undefined) found.push({ job_id: child_job_id, ...own })
  }
  const all = found.reduce((sum, { count }) => sum + count, 0)
  const first = found.find(({ count }) => count > 0) ?? found[0]
  return first === undefined ? null : { ...first, count: all }
}

export function exitCodeWith(
  status: string,
  left: Pick<DeadLettersView, "count"> | null,
  { allowDeadLetters = false }: DeadLetterFlags,
): number {
  const isWell = status === "COMPLETED" && (left === null || left.count === 0 || allowDeadLetters)
  return isWell ? exitCode.ok : exitCode.failed
}

/** `read:1: E721 a.jsonl is a file …` */
export function firstError({ first }: DeadLettersView): string {
  return first === null ? "" : printable(`${first.message}: ${first.error.code} ${first.error.message}`)
}

/** What failed, the first error, and the command that lists all. */
function deadLettersText(left: LeftDeadLetters | null, paint: Paint, flags: string): string {
  if (left === null || left.count === 0) return ""
  const { job_id, first } = left
  return [
    paint.yellow(`⚠ ${count(left.count, "message")} failed permanently.`),
    ` Show the errors: umbra dead-letters ${job_id}${flags}\n`,
    first === null ? "" : `  ${firstError(left)}\n`,
  ].join("")
}
