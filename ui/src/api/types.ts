/** Answers of the API that the dashboard reads. */
import type { JobStatus } from "../../../src/core/index.ts"

export interface Paused {
  readonly at: string
  readonly by: string | null
  readonly reason: string | null
}

/** A job of a list. */
export interface ListedJob {
  readonly job_id: string
  readonly workflow: string
  readonly workflow_version: number | null
  readonly owner: string
  readonly parent_id: string | null
  readonly status: JobStatus
  readonly error: {
    readonly code: string
    readonly message: string
    readonly node?: string
    readonly item?: number
  } | null
  readonly reason: string | null
  /** Since when no node of the job begins; null: it is not paused. */
  readonly paused: Paused | null
  readonly usage: { readonly [name: string]: number } | null
  readonly labels: { readonly [name: string]: string }
  readonly created_at: string
  /** Of a delayed job. */
  readonly start_at: string | null
  readonly updated_at: string
  readonly finished_at: string | null
}

export interface JobPage {
  readonly jobs: readonly ListedJob[]
  readonly next: string | null
  /** How far back the page has searched; null: to the end. */
  readonly scanned_to: string | null
  /** false: the search was bounded, and there may be more. */
  readonly complete: boolean
}

/** Jobs by their time and duration, downsampled by the server. */
export interface Durations {
  readonly from: string
  readonly before: string
  readonly points: readonly DurationPoint[]
  readonly jobs: number
  readonly complete: boolean
}

/** One point represents `count` jobs; its other fields are those of the slowest. */
export interface DurationPoint {
  readonly at: string
  readonly duration_ms: number
  readonly status: JobStatus
  readonly count: number
  readonly job_id: string
}
