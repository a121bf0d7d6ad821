/** What the facts of jobs record about a bulk operation: its progress, from its own facts, and what it did to a target, from those of the target. */
import type { Json } from "../../core/json.ts"
import type { FactRow, Journal } from "../../journal/port/journal.ts"
import { factPages } from "../fact-records.ts"
import { abortSignal, type BulkProgress, type BulkRefusal } from "./operation.ts"

/** A progress record has at most 200 ids and 200 refusals of up to 400 characters. */
const PAGE = { limit: 100, inlineBytes: 1024 * 1024 }

/** `done`: by this operation. `later`: the job began after T0, so it is not a target. */
export type Touched = "done" | "later"

export async function lastProgress(journal: Journal, jobId: string): Promise<RecordedRun> {
  let progress: BulkProgress | null = null
  let aborts = 0
  let earlierAborts = 0
  for await (const fact of factPages(journal, { ...PAGE, jobId, after: -1 })) {
    if (fact.type === "preview_published") progress = parseProgress(fact)
    else if (fact.type === "signal_received" && field(fact, "name") === abortSignal) aborts++
    else if (fact.type === "job_retried") earlierAborts = aborts
  }
  return { progress, aborts, earlierAborts }
}

interface RecordedRun {
  readonly progress: BulkProgress | null
  /** Signals to abort; those before the last retry have been processed. */
  readonly aborts: number
  readonly earlierAborts: number
}

/** Facts that are read for one page of refusals. */
const MOST_FACTS = 500

/** A page of the refused targets. `after`: `next` of the previous page. */
export async function refusalPage(
  journal: Journal,
  jobId: string,
  { after = "-1.0", limit }: { readonly after?: string | undefined; readonly limit: number },
): Promise<{ readonly refused: readonly BulkRefusal[]; readonly next: string | null }> {
  const [seq, index] = after.split(".").map(Number) as [number, number]
  const refused: BulkRefusal[] = []
  let read = 0
  // From that record on: some of its refusals may not have been shown yet.
  for await (const fact of factPages(journal, { ...PAGE, jobId, after: seq - 1 })) {
    if (fact.type === "preview_published") {
      const skipped = fact.seq === seq ? index : 0
      const { refusals } = parseProgress(fact)
      const taken = refusals.slice(skipped, skipped + limit - refused.length)
      refused.push(...taken)
      if (refused.length === limit) return { refused, next: `${fact.seq}.${skipped + taken.length}` }
    }
    if (++read === MOST_FACTS) return { refused, next: `${fact.seq + 1}.0` }
  }
  return { refused, next: null }
}

/** null: another caller has changed the job since. */
export async function touchedBy(
  journal: Journal,
  target: { readonly jobId: string; readonly seq: number; readonly operation: string },
): Promise<Touched | null> {
  for await (const fact of factPages(journal, { ...PAGE, jobId: target.jobId, after: target.seq })) {
    if (fact.type === "job_submitted") return "later"
    // The operation acts only on a job that nothing of this kind has happened to since T0.
    if (commandFacts.has(fact.type)) return field(fact, "operation") === target.operation ? "done" : null
  }
  return null
}

const commandFacts: ReadonlySet<string> = new Set(["job_cancelled", "job_retried", "job_deleted"])

function parseProgress({ data }: FactRow): BulkProgress {
  return (JSON.parse(data!) as { readonly data: BulkProgress }).data
}

function field({ data }: FactRow, name: string): Json | undefined {
  return data === null ? undefined : (JSON.parse(data) as { readonly [name: string]: Json })[name]
}
