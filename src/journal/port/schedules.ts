/**
 * The part of the storage contract for schedules. Ticks are stored by `append`, behind the fence of the schedule's
 * partition, with the jobs that they start; everything here is written by users.
 *
 * 1. Every method is one commit and safe to send twice.
 * 2. `lastTick` only rises. A change of the document raises `revision`, a tick does not.
 */
export interface ScheduleStore {
  /** Stores a new schedule. False: the owner has one with this name. */
  create(schedule: NewSchedule): Promise<boolean>
  /** False: it has changed since that revision, or was removed. */
  change(change: ScheduleEdit): Promise<boolean>
  read(key: ScheduleKey): Promise<ScheduleRow | null>
  /** By name. */
  list(query: {
    readonly owner: string
    readonly after?: string | undefined
    readonly limit: number
  }): Promise<ScheduleRow[]>
  /** With its outcomes. False: there was none. */
  remove(key: ScheduleKey): Promise<boolean>
  /** Outcomes of ticks before `before`, newest first. */
  fires(query: {
    readonly scheduleId: string
    readonly before?: number | undefined
    readonly limit: number
  }): Promise<FireRow[]>
  /** An outcome outside of an append. It replaces none but that of a queued tick. */
  addFire(fire: FireRow & { readonly scheduleId: string }): Promise<void>
  /** Schedules of these partitions with a tick to decide, the earliest first, and when the next one has one. */
  due(query: {
    readonly partitions: readonly number[]
    readonly at: number
    readonly limit: number
  }): Promise<{ readonly schedules: ScheduleRow[]; readonly nextAt: number | null }>
  /** Schedules of these partitions with a queued tick. */
  queued(partitions: readonly number[]): Promise<ScheduleRow[]>
}

export interface ScheduleKey {
  readonly owner: string
  readonly name: string
}

export interface NewSchedule extends ScheduleKey {
  readonly id: string
  readonly partition: number
  /** JSON (src/schedule/document.ts). */
  readonly document: string
  readonly createdAt: number
  /** Every tick up to here is decided. */
  readonly lastTick: number
  /** When the next tick fires; null: never, or it is paused. */
  readonly nextAt: number | null
}

export interface ScheduleRow extends NewSchedule {
  readonly revision: number
  readonly updatedAt: number
  readonly pausedAt: number | null
  /** A tick that starts when the latest job has ended. */
  readonly queuedTick: number | null
  /** The latest job that a tick started. */
  readonly lastJob: string | null
}

export interface ScheduleEdit
  extends Pick<
    ScheduleRow,
    "id" | "revision" | "document" | "updatedAt" | "pausedAt" | "lastTick" | "nextAt"
  > {
  /** A queued tick does not start any more. */
  readonly dropsQueued: boolean
}

/** What ticks change. `revision`: of the document that they were decided with. */
export interface ScheduleChange
  extends Pick<ScheduleRow, "id" | "partition" | "revision" | "lastTick" | "nextAt" | "queuedTick"> {
  /** null: no job was started. */
  readonly lastJob: string | null
  /** A queued tick that was started now. */
  readonly startedTick: number | null
}

export interface FireRow {
  readonly tick: number
  /** A run was requested by a user. */
  readonly kind: "tick" | "run"
  readonly at: number
  readonly outcome: "started" | "skipped" | "missed" | "queued" | "refused"
  readonly jobId: string | null
  readonly reason: string | null
  /** Ticks that were missed in a row are one row, under the last of them. */
  readonly count: number
}

export interface NewFire extends FireRow {
  readonly partition: number
  readonly scheduleId: string
}
