import type { PartitionEpoch } from "./journal.ts"

/**
 * Roll-ups of the statistics of ended jobs: one row for each node of a workflow version, hour and partition; `data` is for
 * the callers alone (core/statistics/totals.ts).
 *
 * The owner of a partition counts its jobs in the order of the facts that ended them. All ends up to the partition's
 * watermark, a seq, are counted; none after it is. Watermark and roll-ups are written together, behind the fence.
 */
export interface StatisticsStore {
  /** The watermarks of these partitions; `isBehind`: there are facts after it, up to `upTo`. */
  watermarks(
    partitions: readonly { readonly partition: number; readonly upTo: number }[],
  ): Promise<PartitionWatermark[]>
  /**
   * Facts of a partition after seq `after` and up to `upTo`, in their order, at most `limit`, each with the metrics in the
   * row of its job.
   */
  factsOfJobs(query: {
    readonly partition: number
    readonly after: number
    readonly upTo: number
    readonly limit: number
  }): Promise<FactOfJob[]>
  /** The roll-ups that are stored in the name of this partition, of all nodes. */
  readForUpdate(query: { readonly partition: number; readonly keys: readonly RollUpKey[] }): Promise<RollUp[]>
  /**
   * Moves watermarks and replaces roll-ups, all or nothing: every fence must hold, and every watermark be the expected one.
   * `partition`, in whose name the roll-ups are stored, must be among the fences. Returns whether it was written, now or
   * by an earlier sending.
   */
  write(write: {
    readonly moves: readonly WatermarkMove[]
    readonly partition: number
    readonly rollUps: readonly RollUp[]
  }): Promise<boolean>
  /**
   * The roll-ups of a workflow, of all versions unless one is given, for hours that begin in [from, to). Those of all
   * partitions for the same version, node and hour are one row: `data` has a line for each.
   */
  read(query: StatisticsQuery): Promise<StoredTotals[]>
  /** Removes at most `limit` roll-ups of hours that began before the given time. Any engine does this. Returns their number. */
  purgeHours(purge: { readonly before: number; readonly limit: number }): Promise<number>
}

export interface PartitionWatermark {
  readonly partition: number
  readonly seq: number
  readonly isBehind: boolean
}

export interface FactOfJob {
  readonly seq: number
  readonly at: number
  readonly jobId: string
  /** null: the job was removed. */
  readonly owner: string | null
  readonly workflow: string | null
  readonly version: number | null
  /** null: the job has not ended, or ended in a release before 0.2. */
  readonly stats: string | null
  readonly hasEnded: boolean
}

export interface RollUpKey {
  readonly owner: string
  readonly workflow: string
  readonly version: number
  /** When the hour began, in milliseconds since 1970. */
  readonly hour: number
}

export interface RollUp extends RollUpKey {
  readonly node: string
  /** One line. */
  readonly data: string
}

export interface WatermarkMove extends PartitionEpoch {
  readonly from: number
  readonly to: number
}

export interface StatisticsQuery {
  readonly owner: string
  readonly workflow: string
  readonly version?: number | undefined
  readonly from: number
  readonly to: number
}

export interface StoredTotals {
  readonly version: number
  readonly node: string
  readonly data: string
}
