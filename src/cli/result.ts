/** A job that has ended, for programs and for people. */
import type { RouteView } from "../core/pipeline/view.ts"
import type { GraphView, NodeView } from "../core/view.ts"
import type { JobSnapshot } from "../engine/job-snapshot.ts"
import { exitCode } from "./exit.ts"
import { deadLetteredIn } from "./routes-table.ts"
import { count, duration, type Paint, paintFor, printable } from "./terminal.ts"

export interface JobWithNodes {
  readonly job: JobSnapshot
  readonly graph: GraphView
}

/** For the commands that are suggested: how they find the job, and how they can run it. */
export interface Suggested {
  readonly flags: string
  readonly runningFlags: string
  readonly runsHere: boolean
}

/** Tells what came of the job. It may also have been left unfinished, when the process was asked to stop. */
export async function report(
  jobs: { job(id: string): Promise<JobSnapshot>; graph(id: string): Promise<GraphView> },
  jobId: string,
  options: Suggested & { readonly json?: boolean },
): Promise<number> {
  const [job, graph] = await Promise.all([jobs.job(jobId), jobs.graph(jobId)])
  process.stdout.write(
    options.json
      ? `${JSON.stringify(finalJob({ job, graph }), null, 2)}\n`
      : resultText({ job, graph }, paintFor(process.stdout), options),
  )
  return job.status === "COMPLETED" ? exitCode.ok : exitCode.failed
}

/** `umbra run --json` */
function finalJob({ job, graph }: JobWithNodes) {
  const { job_id, status, output, error, reason } = job
  const { routes } = graph
  const nodes = graph.nodes.map(nodeSummary)
  return { job_id, status, output, error, reason, nodes, ...(routes === undefined ? {} : { routes }) }
}

/** What became of its messages has been shown; what is left is what to do about those that failed. */
function messagesText({ job_id }: JobSnapshot, routes: readonly RouteView[], flags: string): string {
  const dead = deadLetteredIn(routes)
  if (dead === 0) return ""
  const paint = paintFor(process.stdout)
  return `${paint.yellow(`${count(dead, "message")} failed for good.`)} See why: umbra dead-letters ${job_id}${flags}\n`
}

export function nodeSummary(node: NodeView) {
  const { id, handler, status, attempt, max_attempts, losses, error, usage } = node
  const { duration_ms, queued_ms, waited_ms } = node
  return {
    ...{ id, handler, status, attempt, max_attempts, losses, duration_ms, queued_ms, waited_ms, error },
    ...(usage === undefined ? {} : { usage }),
  }
}

/** Nothing for a first attempt that nothing has happened to. */
export function attemptText({
  attempt,
  max_attempts,
  losses,
}: Pick<NodeView, "attempt" | "max_attempts" | "losses">) {
  const nth = attempt > 1 ? `attempt ${attempt} of ${max_attempts}` : ""
  return [nth, losses > 0 ? `lost ${count(losses, "time")}` : ""].filter(Boolean).join(", ")
}

/** More than this scrolls everything else away. */
const MOST_LINES = 40
const MOST_COLUMNS = 4000

function resultText(
  { job, graph: { routes } }: JobWithNodes,
  paint: Paint,
  { flags, runningFlags, runsHere }: Suggested,
): string {
  const { job_id, status, workflow, created_at, finished_at } = job
  const took = finished_at === null ? "" : ` in ${duration(Date.parse(finished_at) - Date.parse(created_at))}`
  const messages = routes === undefined ? null : messagesText(job, routes, flags)
  if (status === "COMPLETED")
    return `${paint.green(`✓ ${workflow} completed`)}${took}\n${messages ?? outputText(job, flags)}`
  const why = errorText(job) || printable(job.reason ?? "")
  const next =
    status === "FAILED" || status === "CANCELLED" || status === "EXPIRED"
      ? `Run what is not done again: umbra jobs retry ${job_id} --wait${runningFlags}\n`
      : runsHere
        ? `Finish it: umbra resume${runningFlags}\n`
        : `It goes on. Look at it again: umbra watch ${job_id}${flags}\n`
  const said =
    finished_at === null
      ? paint.yellow(`◔ ${workflow} is ${status}`)
      : paint.red(`✗ ${workflow} is ${status}`)
  return `${said}${took}${why === "" ? "" : `\n  ${why}`}\n${messages ?? ""}${paint.dim(next)}`
}

export function errorText({ error }: Pick<JobSnapshot, "error">): string {
  if (error === null) return ""
  const item = error.item === undefined ? "" : `, item ${error.item}`
  const where = error.node === undefined ? "" : `node ${error.node}${item}: `
  return printable(`${where}${error.code} ${error.message}`)
}

function outputText({ job_id, output }: JobSnapshot, flags: string): string {
  const text = JSON.stringify(output, null, 2)
  const lines = text.split("\n")
  if (lines.length <= MOST_LINES && text.length <= MOST_COLUMNS) return `${text}\n`
  const shown = lines.slice(0, MOST_LINES).join("\n").slice(0, MOST_COLUMNS)
  return `${shown}\n… (${count(text.length, "character")}; all of it: umbra jobs show ${job_id} --json${flags})\n`
}
