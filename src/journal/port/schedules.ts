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
  /** False: it has changed since that revision, or was removed. A queued tick that will not start is skipped then. */
  change(change: ScheduleEdit): Promise<boolean>
  read(key: ScheduleKey): Promise<ScheduleRow | null>
  /** By name: at most `limit`, and at most `maxBytes` of documents unless the first is larger. No more is read. */
  list(query: {
    readonly owner: string
    readonly after?: string | undefined
    /** From 1. */
    readonly limit: number
    readonly maxBytes: number
  }): Promise<{ readonly schedules: ScheduleRow[]; readonly isLast: boolean }>
  /** How many the owner has; `limit`: that many or more. No more is read. */
  count(query: { readonly owner: string; readonly limit: number }): Promise<number>
  /** With its outcomes. False: there was none. */
  remove(key: ScheduleKey): Promise<boolean>
  /** Outcomes before that one, newest first. */
  fires(query: {
    readonly scheduleId: string
    readonly before?: FireKey | undefined
    readonly limit: number
  }): Promise<FireRow[]>
  /** Outcomes after that one and of ticks before `to`, oldest first. */
  firesBetween(query: {
    readonly scheduleId: string
    readonly after: FireKey
    readonly to: number
    readonly limit: number
  }): Promise<FireRow[]>
  /** An outcome outside of an append. It replaces none but that of a queued tick. */
  addFire(fire: FireRow & { readonly scheduleId: string }): Promise<void>
  /**
   * Schedules with a tick that fires until `at`, the earliest first: at most `limit`, at most `limitOfPartition` of one partition, and
   * at most `maxBytes` of documents unless the first is larger. No more is read. `nextAt`: when the first tick after `at` fires.
   */
  due(query: {
    readonly partitions: readonly number[]
    readonly at: number
    readonly limit: number
    readonly limitOfPartition: number
    readonly maxBytes: number
  }): Promise<{ readonly schedules: ScheduleRow[]; readonly nextAt: number | null }>
  /** The ids of the schedules of these partitions with a queued tick: there may be very many. */
  queued(partitions: readonly number[]): Promise<string[]>
  /** Those that exist, in any order. The caller bounds their number: all documents are read at once. */
  readMany(ids: readonly string[]): Promise<ScheduleRow[]>
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

/** Outcomes of a schedule are in the order of tick and kind. */
export interface FireKey {
  readonly tick: number
  /** `run:ID`: a user requested that job. `backfill:ID`: a tick of that bulk operation. */
  readonly kind: string
}

export interface FireRow extends FireKey {
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
