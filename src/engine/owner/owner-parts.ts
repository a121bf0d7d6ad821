import type { Broker, BrokerHost, ChildRequest } from "../../broker/port.ts"
import type { Reported } from "../../core/commands.ts"
import type { Log } from "../../log.ts"
import type { Clock } from "../clock.ts"
import type { EngineMetrics } from "../metrics.ts"
import type { Lease } from "../partitions/heartbeat.ts"
import type { ReadyPartitions } from "../partitions/ready-partitions.ts"
import type { Capacity } from "../providers/capacity.ts"
import type { LeftSubmissions } from "../providers/left-submissions.ts"
import type { Polls } from "../providers/polls.ts"
import type { Providers } from "../providers/providers.ts"
import type { Slots } from "../providers/slots.ts"
import type { LoadParts } from "../recovery/fold.ts"
import type { EngineSettings } from "../settings.ts"
import type { Queue } from "./job-queue.ts"
import type { LiveJob } from "./live-job.ts"
import type { QueuedFacts } from "./queued-facts.ts"

export interface OwnerParts<B extends Broker = Broker> {
  readonly load: LoadParts & { readonly queuedFacts: QueuedFacts }
  readonly clock: Clock
  readonly settings: EngineSettings
  readonly log: Log
  /** The id of the engine that this owner is part of. */
  readonly id: string
  readonly broker: (host: BrokerHost) => B
  readonly lease: Lease
  readonly observer: JobObserver
  readonly engine: OwnerEngine
  readonly metrics: EngineMetrics
  readonly providers: Providers
  readonly partitions: ReadyPartitions
  readonly startsJobs: boolean
  /** Limit of a rendered value, as JSON. */
  readonly maxOutputBytes: number
}

/** A new job, sent to the journal; `job` is null if it waits as a row. */
export interface Submission {
  readonly createdAt: number
  readonly job: LiveJob | null
}

/** What the engine does beside its owner. */
export interface OwnerEngine {
  /** A job was parked until this time; null: until a command arrives for it. */
  parked(partition: number, wakeAt: number | null): void
  /** How many attempts the live workers can run at once. */
  capacity(): number
  /** Loads jobs that wait as rows and dispatches them. Returns those to be read again. */
  begin(ids: readonly string[], queue: Queue): Promise<readonly string[]>
  /** A node starts a child job. Resolves when the outcome of that request is decided. */
  childRequested(job: LiveJob, at: Reported, request: ChildRequest): Promise<void>
  /** The job has ended, and its parent or children do not know yet. Called again whenever the job is loaded. */
  unsettled(job: LiveJob): void
  /** There are messages in the inboxes of these partitions. */
  inboxChanged(partitions: readonly number[]): void
  /** The outcome of a submission whose job had ended is known: its operation is to be cancelled, or its slot is free. */
  submissionSettled(provider: string, isToCancel: boolean): void
}

/** Receives what callers outside the engine see of jobs. What changed and ended is durable. */
export interface JobObserver {
  changed(job: Pick<LiveJob, "id" | "partition">): void
  ended(job: LiveJob): void
  /** This engine does not own the partition any more. */
  lost(partition: number): void
  progressed(job: LiveJob, node: number): void
}

/** What an owner has beside its jobs for work at providers. */
export interface ExternalWork {
  readonly providers: Providers
  readonly slots: Slots
  readonly capacity: Capacity
  readonly polls: Polls
  readonly leftSubmissions: LeftSubmissions
}

export type Use<T> = (job: LiveJob) => T | Promise<T>
export type Absent<T> = () => T | null | Promise<T>
