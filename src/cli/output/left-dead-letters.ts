/** The report of a command about messages that failed permanently and that no job has replayed, and its exit code. */
import type { DeadLettersView } from "../../core/pipeline/view.ts"
import { exitCode } from "../exit.ts"
import { count, type Paint, printable } from "./terminal.ts"

export interface DeadLetterFlags {
  readonly allowDeadLetters?: boolean
}

/** Dead letters of the job itself, or of a pipeline that one of its nodes ran. */
export interface LeftDeadLetters extends DeadLettersView {
  readonly job_id: string
}

interface Graph {
  readonly nodes: readonly { readonly handler: string; readonly child_job_id?: string }[]
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
  left: LeftDeadLetters | null,
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
export function deadLettersText(left: LeftDeadLetters | null, paint: Paint, flags: string): string {
  if (left === null || left.count === 0) return ""
  const { job_id, first } = left
  return [
    paint.yellow(`⚠ ${count(left.count, "message")} failed permanently.`),
    ` Show the errors: umbra dead-letters ${job_id}${flags}\n`,
    first === null ? "" : `  ${firstError(left)}\n`,
  ].join("")
}
