import type { JobStatus } from "../../core/states.ts"

/** The filter of a list of jobs. */
export interface JobFilter {
  readonly owner?: string | undefined
  readonly statuses?: readonly JobStatus[] | undefined
  readonly workflow?: string | undefined
  /** Only with `workflow`. */
  readonly version?: number | undefined
  readonly errorCode?: string | undefined
  readonly fingerprint?: string | undefined
  /** Words that the message of the error contains, all of them. Numbers, ids and quoted texts are not searched. */
  readonly errorText?: string | undefined
  /** Jobs that have ended and took at least this long, from their creation on. */
  readonly minDurationMs?: number | undefined
  /** Jobs with all of these labels. */
  readonly labels?: { readonly [name: string]: string } | undefined
  /** The children of this job; null: jobs without a parent. */
  readonly parentId?: string | null | undefined
  /** The forks of this job. */
  readonly forkedFrom?: string | undefined
  readonly createdFrom?: number | undefined
  readonly createdBefore?: number | undefined
  /** `next` of the previous page. */
  readonly after?: string | undefined
  readonly limit: number
  /** DELETED jobs are hidden unless requested. */
  readonly deleted?: boolean | undefined
}
