/** One of many jobs that are submitted together. */
import type { ProblemDocument } from "./error.ts"
import { newKey } from "./http.ts"
import { startBody } from "./requests.ts"
import type { BulkJob } from "./types.ts"

/** With a key for all tries of the request. */
export function submissionBody({ input, options = {} }: BulkJob, workflow: string) {
  const { priority, labels } = options
  return {
    ...{ workflow, input, priority, ttl_seconds: options.ttlSeconds, labels, ...startBody(options) },
    idempotency_key: options.idempotencyKey ?? newKey(),
  }
}

export type BulkAnswer =
  | { readonly job_id: string; readonly is_new: boolean }
  | { readonly problem: ProblemDocument }
