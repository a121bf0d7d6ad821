/** Parts of requests: segments of paths, parameters and bodies. */
import { UmbraClientError } from "./error.ts"
import type { ForkRequest, JobsFilter, StartOptions } from "./types.ts"

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

/** The filters of a list as parameters. */
export function listQuery(filter: JobsFilter) {
  const { statuses, workflow, version, labels, parentId, createdFrom, createdBefore } = filter
  const { errorCode, fingerprint, errorText, minDurationMs, forkedFrom, deleted } = filter
  return {
    status: statuses?.join(","),
    workflow,
    version,
    error_code: errorCode,
    fingerprint,
    error_text: errorText,
    min_duration: minDurationMs === undefined ? undefined : minDurationMs / 1000,
    label: labels && Object.entries(labels).map(([name, value]) => `${name}=${value}`),
    parent: parentId === null ? "none" : parentId,
    forked_from: forkedFrom,
    created_from: isoText(createdFrom),
    created_before: isoText(createdBefore),
    deleted,
  }
}

/** When a job starts. */
/** An invalid date is sent as it is: the problem document of the server describes what is expected. */
export function startBody({ startAt, delaySeconds }: StartOptions) {
  const isValid = startAt instanceof Date && !Number.isNaN(startAt.getTime())
  return { start_at: isValid ? startAt.toISOString() : startAt?.toString(), delay_seconds: delaySeconds }
}

/** A workflow made with the builder is sent as its definition. */
export function forkBody({ workflow, ...request }: ForkRequest) {
  const isBuilt = typeof workflow === "object" && "definition" in workflow
  return { ...request, workflow: isBuilt ? workflow.definition : workflow }
}
