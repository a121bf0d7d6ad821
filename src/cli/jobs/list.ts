/** `umbra jobs list`: newest first, one page at a time. */
import type { JobPage } from "../../client/index.ts"
import type { JobStatus } from "../../core/states.ts"
import type { JobSnapshot } from "../../engine/owner/snapshot.ts"
import { padded, print } from "../output/print.ts"
import { duration, type Paint, paintFor, printable } from "../output/terminal.ts"
import { withTarget } from "../target/open.ts"
import type { TargetOptions } from "../target/target.ts"

export interface ListOptions extends TargetOptions {
  readonly status?: readonly JobStatus[]
  readonly workflow?: { readonly name: string; readonly version?: number }
  readonly errorCode?: string
  readonly fingerprint?: string
  readonly errorText?: string
  readonly minDuration?: number
  readonly createdFrom?: number
  readonly createdBefore?: number
  readonly label?: Readonly<Record<string, string>>
  readonly parent?: string
  readonly top?: boolean
  readonly limit: number
  readonly after?: string
  readonly deleted?: boolean
}

export async function list(options: ListOptions): Promise<number> {
  const { status, workflow, label, parent, top, limit, after, deleted, minDuration } = options
  const { errorCode, fingerprint, errorText, createdFrom, createdBefore } = options
  return withTarget(options, async ({ jobs: target, flags }) => {
    const page = await target.jobPage({
      limit,
      statuses: status,
      workflow: workflow?.name,
      version: workflow?.version,
      ...{ errorCode, fingerprint, errorText, createdFrom, createdBefore },
      minDurationMs: minDuration === undefined ? undefined : Math.round(minDuration * 1000),
      labels: label,
      parentId: parent ?? (top ? null : undefined),
      after,
      deleted: deleted || status?.includes("DELETED") || undefined,
    })
    return print(options, page, () => table(page, flags))
  })
}

function table({ jobs, next, complete, scanned_to }: JobPage, flags: string): string {
  if (jobs.length === 0 && next === null) return "No jobs.\n"
  const paint = paintFor(process.stdout)
  const names = padded(jobs.map(job => printable(`${job.workflow}@${job.workflow_version}`)))
  const lines = jobs.map((job, i) =>
    `${job.job_id}  ${paintStatus(job.status, paint)}  ${names[i]}  ${job.created_at}  ${tookText(job)}`.trimEnd(),
  )
  const searched = complete ? "More" : `Searched back to ${scanned_to}. Continue with the same options`
  const more = next === null ? "" : paint.dim(`${searched}: umbra jobs list --after ${next}${flags}\n`)
  return `${lines.map(line => `${line}\n`).join("")}${more}`
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
