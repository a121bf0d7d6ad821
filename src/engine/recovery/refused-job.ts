import { UmbraError } from "../../errors.ts"
import type { Log } from "../../log.ts"
import type { Family } from "../children/family.ts"
import type { LiveJob } from "../owner/live-job.ts"
import type { PartitionOwner } from "../owner/owner.ts"

/** Fails a job whose facts cannot be stored, from its state in the journal. A job that was never stored is dropped. */
export async function failRefused(
  refused: LiveJob,
  error: unknown,
  parts: {
    readonly owner: PartitionOwner
    readonly family: Family
    readonly log: Log
  },
): Promise<void> {
  const { owner, family, log } = parts
  const { code, message } = error instanceof UmbraError ? error : { code: "E502", message: String(error) }
  try {
    const fault = { code, message, retryable: false }
    const decided = await owner.withJob(refused.id, job => owner.execute(job, { type: "fail_job", fault }))
    if (decided === null) await family.refused(refused, fault)
  } catch (failure) {
    log.error({ job_id: refused.id, error: String(failure) }, "job quarantined: it cannot be failed either")
  }
}
