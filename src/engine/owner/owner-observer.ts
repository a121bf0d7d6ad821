import type { ChildRequest } from "../../broker/port.ts"
import type { Reported } from "../../core/commands.ts"
import type { OperationRows } from "../commit/operation-rows.ts"
import type { LiveJob } from "./live-job.ts"

/** Who wants to know what happens, after it is durable. */
export interface OwnerObserver {
  changed(job: LiveJob): void
  ended(job: LiveJob): void
  progressed(job: LiveJob, node: number): void
  parked(wakeAt: number | null): void
  /** A node wants another workflow to do its work. Resolves when what comes of it is decided. */
  childWanted(job: LiveJob, at: Reported, request: ChildRequest): Promise<void>
  /** It has ended, and its relatives do not know. Told again whenever it is loaded. */
  unsettled(job: LiveJob): void
  fenced(partition: number): void
  /** The database will never take what happened to this job; what it has of the job is from before. */
  refused(job: LiveJob, error: unknown): void
  available(isAvailable: boolean): void
  /** There are messages in the inboxes of these partitions. */
  inboxChanged(partitions: readonly number[]): void
  /** What operations at providers left to do, durably. */
  operations(rows: OperationRows): void
  /** The outcome of a submission is known whose job had ended: its operation is to be cancelled, or its slot is free. */
  submissionSettled(provider: string, isToCancel: boolean): void
}
