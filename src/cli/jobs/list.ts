/** `umbra jobs list`: newest first, one page at a time. */
import type { JobStatus } from "../../core/states.ts"
import type { JobSnapshot } from "../../engine/owner/snapshot.ts"
import { exitCode } from "../exit.ts"
import { duration, type Paint, paintFor, printable, width } from "../output/terminal.ts"
import { withTarget } from "../target/open.ts"
import type { TargetOptions } from "../target/target.ts"

export interface ListOptions extends TargetOptions {
  readonly status?: readonly JobStatus[]
  readonly workflow?: string
  readonly label?: Readonly<Record<string, string>>
  readonly parent?: string
  readonly top?: boolean
  readonly limit: number
  readonly after?: string
  readonly deleted?: boolean
  readonly json?: boolean
}

export async function list(options: ListOptions): Promise<number> {
  const { status, workflow, label, parent, top, limit, after, deleted } = options
  return withTarget(options, async ({ jobs: target, flags }) => {
    const { jobs, next } = await target.jobPage({
      limit,
      statuses: status,
      workflow,
      labels: label,
      parentId: parent ?? (top ? null : undefined),
      after,
      deleted: deleted || status?.includes("DELETED") || undefined,
    })
    process.stdout.write(
      options.json ? `${JSON.stringify({ jobs, next }, null, 2)}\n` : table(jobs, next, flags),
    )
    return exitCode.ok
  })
}

function table(jobs: readonly JobSnapshot[], next: string | null, flags: string): string {
  if (jobs.length === 0) return "No jobs.\n"
  const paint = paintFor(process.stdout)
  const names = jobs.map(job => printable(`${job.workflow}@${job.workflow_version}`))
  const nameColumns = Math.max(...names.map(width))
  const lines = jobs.map((job, index) => {
    const name = names[index]! + " ".repeat(nameColumns - width(names[index]!))
    return `${job.job_id}  ${paintStatus(job.status, paint)}  ${name}  ${job.created_at}  ${tookText(job)}`.trimEnd()
  })
  const more = next === null ? "" : paint.dim(`More: umbra jobs list --after ${next}${flags}\n`)
  return `${lines.join("\n")}\n${more}`
}

const LONGEST_STATUS = "DISPATCHING".length

export function paintStatus(status: JobStatus, paint: Paint): string {
  const text = status.padEnd(LONGEST_STATUS)
  if (status === "COMPLETED") return paint.green(text)
  if (status === "FAILED" || status === "EXPIRED") return paint.red(text)
  return status === "CANCELLED" || status === "DELETED" ? paint.yellow(text) : paint.cyan(text)
}

function tookText({ created_at, finished_at }: JobSnapshot): string {
  return finished_at === null ? "" : duration(Date.parse(finished_at) - Date.parse(created_at))
}
