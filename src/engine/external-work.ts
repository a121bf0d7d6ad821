import type { Task } from "../broker/port.ts"
import type { Command } from "../core/commands.ts"
import type { Journal } from "../journal/port.ts"
import type { Log } from "../log.ts"
import { Capacity } from "./capacity.ts"
import type { Clock } from "./clock.ts"
import type { LiveJob } from "./live-job.ts"
import { Polls } from "./polls.ts"
import type { Providers } from "./providers.ts"
import type { EngineSettings } from "./settings.ts"
import { Slots } from "./slots.ts"

export interface ExternalWorkParts {
  readonly journal: Journal
  readonly clock: Clock
  readonly log: Log
  readonly settings: EngineSettings
  readonly providers: Providers
  readonly dispatch: (task: Task) => void
  readonly command: (job: LiveJob, command: Command) => void
  readonly durable: (job: LiveJob) => Promise<void>
  readonly failed: (job: LiveJob, error: unknown) => void
  readonly told: (partitions: readonly number[]) => void
}

/** What an owner has beside its jobs for work that is done elsewhere. */
export interface ExternalWork {
  readonly providers: Providers
  readonly slots: Slots
  readonly capacity: Capacity
  readonly polls: Polls
}

export function externalWork(parts: ExternalWorkParts): ExternalWork {
  const { settings, providers } = parts
  const slots = new Slots({ ...parts, leaseMs: settings.slotLeaseSeconds * 1000 })
  const capacity = new Capacity({ ...parts, slots })
  const polls = new Polls({
    ...parts,
    capacity,
    concurrency: settings.pollConcurrency,
    maxWaitMs: settings.pollMaxWaitSeconds * 1000,
  })
  return { providers, slots, capacity, polls }
}
