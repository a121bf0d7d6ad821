import type { OperationResult } from "../core/commands.ts"
import type { Fault } from "../core/faults.ts"
import type { PollPolicy } from "../core/plan.ts"

/** What the engine needs of those who speak to providers (src/provider/). None of these throws or rejects. */
export interface Providers {
  /** Those that are known in this process. */
  names(): readonly string[]
  terms(provider: string): ProviderTerms | undefined
  /** One look at an operation. */
  poll(operation: Operation, signal: AbortSignal): Promise<OperationResult>
  /** null: the provider knows that nobody wants the operation any more. */
  cancel(operation: Operation, signal: AbortSignal): Promise<Fault | null>
}

export interface ProviderTerms {
  /** Slots; null: no limit. */
  readonly concurrency: number | null
  /** Requests a second; null: no limit. */
  readonly rate: number | null
  /** null: the provider cannot be asked. */
  readonly poll: PollPolicy | null
  readonly ttlSeconds: number | null
}

/** Work that a provider does for a node. */
export interface Operation {
  readonly provider: string
  readonly externalId: string
  readonly jobId: string
  readonly nodeId: string
}

export const noProviders: Providers = {
  names: () => [],
  terms: () => undefined,
  poll: async () => ({ type: "hint" }),
  cancel: async () => null,
}
