/** Parts of requests: segments of paths, parameters and bodies. */
import { type ProblemDocument, UmbraClientError } from "./error.ts"
import { newKey } from "./http.ts"
import type { BulkJob, ForkRequest, JobsFilter, StartOptions } from "./types.ts"

/** `fetch` would remove `.` and `..` from the address. */
export function segment(text: string): string {
  if (text === "" || text === "." || text === "..")
    throw new UmbraClientError(`"${text}" cannot be part of a URL path.`, { code: "E309" })
  return encodeURIComponent(text)
}

/** Times of a request are milliseconds since 1970. */
export function isoText(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString()
}

/** A moment of a job: a seq, `#12` for the twelfth fact, or a time. */
export function momentText(at: number | string | Date | undefined): string | undefined {
  return at instanceof Date ? at.toISOString() : at?.toString()
}

/** Filters that have the same form in a query and in a body, with the names of the API. */
export function filterFields(filter: Omit<JobsFilter, "statuses" | "labels" | "deleted">) {
  const { workflow, version, fingerprint, parentId, minDurationMs } = filter
  return {
    ...{ workflow, version, fingerprint },
    error_code: filter.errorCode,
    error_text: filter.errorText,
    min_duration: minDurationMs === undefined ? undefined : minDurationMs / 1000,
    parent: parentId === null ? "none" : parentId,
    forked_from: filter.forkedFrom,
    created_from: isoText(filter.createdFrom),
    created_before: isoText(filter.createdBefore),
  }
}

/** The filters of a list as parameters. */
export function listQuery(filter: JobsFilter) {
  const { statuses, labels, deleted } = filter
  const label = labels && Object.entries(labels).map(([name, value]) => `${name}=${value}`)
  return { status: statuses?.join(","), label, deleted, ...filterFields(filter) }
}

/** When a job starts. An invalid date is sent as it is: the problem document of the server describes what is expected. */
export function startBody({ startAt, delaySeconds }: StartOptions) {
  const isValid = startAt instanceof Date && !Number.isNaN(startAt.getTime())
  return { start_at: isValid ? startAt.toISOString() : startAt?.toString(), delay_seconds: delaySeconds }
}

/** A workflow made with the builder is sent as its definition. */
export function forkBody({ workflow, ...request }: ForkRequest) {
  const isBuilt = typeof workflow === "object" && "definition" in workflow
  return { ...request, workflow: isBuilt ? workflow.definition : workflow }
}

/** One of many jobs that are submitted together, with a key for all tries of the request. */
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
