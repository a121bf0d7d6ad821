/** The filter of `umbra jobs list`, and of commands to all jobs that match. */
import type { BulkFilter } from "../../client/index.ts"
import type { JobStatus } from "../../core/states.ts"

export interface FilterOptions {
  readonly status?: readonly JobStatus[]
  readonly workflow?: { readonly name: string; readonly version?: number }
  readonly errorCode?: string
  readonly fingerprint?: string
  readonly errorText?: string
  readonly minDuration?: number
  readonly createdFrom?: number
  readonly createdBefore?: number
  /** In milliseconds before now. */
  readonly since?: number
  readonly label?: Readonly<Record<string, string>>
  readonly parent?: string
  readonly top?: boolean
  readonly forkedFrom?: string
}

export function buildFilter(options: FilterOptions): BulkFilter {
  const { status, workflow, label, parent, top, minDuration, since } = options
  const { errorCode, fingerprint, errorText, createdBefore, forkedFrom } = options
  return {
    statuses: status,
    workflow: workflow?.name,
    version: workflow?.version,
    ...{ errorCode, fingerprint, errorText, createdBefore },
    createdFrom: options.createdFrom ?? (since === undefined ? undefined : Date.now() - since),
    minDurationMs: minDuration === undefined ? undefined : Math.round(minDuration * 1000),
    labels: label,
    parentId: parent ?? (top ? null : undefined),
    forkedFrom,
  }
}

export function isFiltered(filter: object): boolean {
  return Object.values(filter).some(value => value !== undefined)
}
