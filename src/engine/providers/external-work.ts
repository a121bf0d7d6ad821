import type { RemoteWorkers } from "../../broker/port.ts"
import type { EngineSettings } from "../settings.ts"
import { Capacity, type CapacityParts } from "./capacity.ts"
import { LeftSubmissions, type LeftSubmissionsParts } from "./left-submissions.ts"
import { Polls } from "./polls.ts"
import type { Providers } from "./providers.ts"
import { Slots } from "./slots.ts"

export interface ExternalWorkParts
  extends Omit<CapacityParts, "slots" | "guardMs" | "providers">,
    Pick<LeftSubmissionsParts, "broker" | "rebuildTask" | "settled"> {
  readonly settings: EngineSettings
  readonly providers: Providers
  readonly remote: () => RemoteWorkers | undefined
}

/** What an owner has beside its jobs for work at providers. */
export interface ExternalWork {
  readonly providers: Providers
  readonly slots: Slots
  readonly capacity: Capacity
  readonly polls: Polls
  readonly leftSubmissions: LeftSubmissions
}

export function externalWork(parts: ExternalWorkParts): ExternalWork {
  const { settings, providers } = parts
  const slots = new Slots({ ...parts, leaseMs: settings.slotLeaseSeconds * 1000 })
  const capacity = new Capacity({ ...parts, slots, guardMs: settings.rateGuardMs })
  const polls = new Polls({
    ...parts,
    capacity,
    concurrency: settings.pollConcurrency,
    maxWaitMs: settings.pollMaxWaitSeconds * 1000,
  })
  const leftSubmissions = new LeftSubmissions({ ...parts, capacity })
  return { providers, slots, capacity, polls, leftSubmissions }
}
