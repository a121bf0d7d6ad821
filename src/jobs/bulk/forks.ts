/** The verb `fork` of bulk operations: what a process needs to fork one target, and to preview some of them. */
import { bulkForkId } from "../../engine/ids.ts"
import { UmbraError } from "../../errors.ts"
import type { Journal } from "../../journal/port/journal.ts"
import { type Forks, type ForkTarget, mustBeConfirmed } from "../fork/forks.ts"
import type { Admit } from "../submit.ts"
import type { BulkFork, BulkRefusal } from "./operation.ts"
import type { Touched } from "./records.ts"

/** Of the first targets of a dry run. */
export interface BulkForkPreview {
  /** How many targets were examined. */
  readonly previewed: number
  /** Nodes that `confirm` must still contain for these targets. */
  readonly unconfirmed: { readonly unsafe: readonly string[]; readonly unknown: readonly string[] }
  /** Those that would be refused. */
  readonly refused: readonly BulkRefusal[]
}

/** Whose limits of unfinished jobs count the forks. `maxUnfinished`: the limit of the token; null: it has none. */
export interface ForkLimits {
  readonly owner: string
  readonly submittedBy?: string | undefined
  readonly maxUnfinished: number | null
}

export interface BulkForksParts {
  readonly journal: Journal
  readonly forks: Forks
}

export class BulkForks {
  readonly #parts: BulkForksParts
  /** May a fork be stored now? Otherwise E646, and it is tried again. The server sets it. */
  admit: (limits: ForkLimits) => Admit | undefined = () => undefined

  constructor(parts: BulkForksParts) {
    this.#parts = parts
  }

  prepare(request: BulkFork, owner: string): Promise<BulkFork> {
    return this.#parts.forks.prepare(request, owner)
  }

  /** Throws why the target is refused. A repetition finds the fork that exists, whatever has happened to its origin since. */
  async fork(target: ForkTarget, request: BulkFork, maxUnfinished: number | null): Promise<Touched> {
    const { forks } = this.#parts
    const { owner, submittedBy } = target
    if (await this.#exists(target)) return "done"
    try {
      const admit = this.admit({ owner, submittedBy, maxUnfinished })
      return (await forks.forkTarget(target, request, admit)) ? "done" : "later"
    } catch (error) {
      // A process that ran the operation before may have sent it just now.
      if (error instanceof UmbraError && (await this.#exists(target))) return "done"
      throw error
    }
  }

  async #exists({ operation, jobId }: ForkTarget): Promise<boolean> {
    return (await this.#parts.journal.readJob(bulkForkId(operation, jobId))) !== null
  }

  async preview(ids: readonly string[], request: BulkFork, owner: string): Promise<BulkForkPreview> {
    const unsafe = new Set<string>()
    const unknown = new Set<string>()
    const refused: BulkRefusal[] = []
    for (const jobId of ids)
      try {
        const preview = await this.#parts.forks.previewTarget({ jobId, owner }, request)
        for (const node of preview.unconfirmed.unsafe) unsafe.add(node)
        for (const node of preview.unconfirmed.unknown) unknown.add(node)
        mustBeConfirmed(preview)
      } catch (error) {
        if (!(error instanceof UmbraError) || error.retryable) throw error
        refused.push(toRefusal(jobId, error))
      }
    return { previewed: ids.length, unconfirmed: { unsafe: [...unsafe], unknown: [...unknown] }, refused }
  }
}

/** A message may list all problems of a definition; a record of progress has up to 200 of them. */
const LONGEST_MESSAGE = 400

export function toRefusal(
  target: string,
  { code, message }: UmbraError,
  kind: "job" | "tick" = "job",
): BulkRefusal {
  const isLong = message.length > LONGEST_MESSAGE
  return {
    ...(kind === "job" ? { job_id: target } : { job_id: null, tick: target }),
    code,
    message: isLong ? `${message.slice(0, LONGEST_MESSAGE)} …` : message,
  }
}
