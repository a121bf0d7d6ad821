import type { SubmitOptions } from "../../client/index.ts"

/** Options of `run` and `submit` for a job. */
export interface SubmissionFlags {
  /** null: never. */
  readonly ttl?: number | null
  readonly label?: Readonly<Record<string, string>>
  readonly idempotencyKey?: string
  readonly priority?: number
}

export function submitOptions({ ttl, label, idempotencyKey, priority }: SubmissionFlags): SubmitOptions {
  return { ttlSeconds: ttl, labels: label, idempotencyKey, priority }
}
