import type { ChildRequest } from "../../broker/port.ts"
import type { Reported } from "../../core/commands.ts"
import type { OperationRows } from "../commit/operation-rows.ts"
import type { LiveJob } from "./live-job.ts"

/** Callbacks of the partition owner. Everything reported here is durable. */
export interface OwnerObserver {
  changed(job: LiveJob): void
  ended(job: LiveJob): void
  progressed(job: LiveJob, node: number): void
  parked(wakeAt: number | null): void
  /** A node starts a child job. Resolves when the outcome of that request is decided. */
  childRequested(job: LiveJob, at: Reported, request: ChildRequest): Promise<void>
  /** The job has ended, and its parent or children do not know yet. Called again whenever the job is loaded. */
  unsettled(job: LiveJob): void
  fenced(partition: number): void
  /** The database will never accept the latest facts of this job; it still has the earlier ones. */
  refused(job: LiveJob, error: unknown): void
  available(isAvailable: boolean): void
  /** There are messages in the inboxes of these partitions. */
  inboxChanged(partitions: readonly number[]): void
  /** Work that operations at providers left to do, durably. */
  operations(rows: OperationRows): void
  /** The outcome of a submission whose job had ended is known: its operation is to be cancelled, or its slot is free. */
  submissionSettled(provider: string, isToCancel: boolean): void
}
