import type { OperationResult } from "../../core/commands.ts"
import type { Fault } from "../../core/faults.ts"
import type { PollPolicy } from "../../core/plan.ts"
import type { Plan } from "../../definition/plan.ts"
import { UmbraError } from "../../errors.ts"

/** What the engine needs of the code that talks to providers (src/provider/). None of these throws or rejects. */
export interface Providers {
  /** The providers that are known in this process. */
  names(): readonly string[]
  terms(provider: string): ProviderTerms | undefined
  /** Polls an operation once. */
  poll(operation: Operation, call: ProviderCall): Promise<OperationResult>
  /** Stores what the URLs in a result point to, if the provider wants that; the result then refers to it. */
  keep(result: OperationResult, of: Keep): Promise<OperationResult>
  /** null: the provider has accepted the cancellation. */
  cancel(operation: Operation, call: ProviderCall): Promise<Fault | null>
}

export interface Keep {
  readonly provider: string
  /** The owner of the job. */
  readonly owner: string
  readonly signal: AbortSignal
  /** Called before something is downloaded: resolves with the function that ends it. null: not now. */
  readonly place: () => Promise<(() => void) | null>
}

/** A call to a provider that already has its place in the rate. */
export interface ProviderCall {
  readonly signal: AbortSignal
  /** Resolves when there is a place for another request; absent: this process cannot get one. */
  readonly place?: () => Promise<void>
}

export interface ProviderTerms {
  /** Slots; null: no limit. */
  readonly concurrency: number | null
  /** Requests a second; null: no limit. */
  readonly rate: number | null
  /** Owners whose jobs may use it; null: all. */
  readonly owners: readonly string[] | null
  /** Slots that one owner may hold; null: no limit of its own. */
  readonly concurrencyPerOwner: number | null
  /** Requests a second for one owner; null: no limit of its own. */
  readonly ratePerOwner: number | null
  /** null: the provider cannot be polled. */
  readonly poll: PollPolicy | null
  readonly ttlSeconds: number | null
  /** How long to wait for an answer. */
  readonly timeoutSeconds: number
  /** Does it recognise a repeated submission by its idempotency key? */
  readonly honoursKeys: boolean
  /** Other definitions of the same account at the service, whose ids name the same operations; absent: there is none. */
  readonly sameAccount?: readonly string[]
}

/** Does a node need a slot to submit to the provider? */
export function usesSlots({ concurrency, concurrencyPerOwner }: ProviderTerms): boolean {
  return concurrency !== null || concurrencyPerOwner !== null
}

/** May jobs of this owner use the provider? */
export function isAllowedFor({ owners }: ProviderTerms, owner: string): boolean {
  return owners === null || owners.includes(owner)
}

/** The message does not name the other owners: only the operator may know them. */
export function notForOwner(node: string, provider: string): Fault {
  return {
    code: "E426",
    message: `Node "${node}" uses provider "${provider}", which is not for jobs of this owner (\`owners\` of the provider).`,
    retryable: false,
  }
}

/** Throws E426. For a provider that is not known here another process decides, when the node is dispatched. */
export function mustBeFor(
  { nodes, providers: named }: Pick<Plan, "nodes" | "providers">,
  owner: string,
  providers: Pick<Providers, "terms">,
): void {
  if (named.length === 0) return
  for (const { id, provider } of nodes) {
    const terms = provider === null ? undefined : providers.terms(provider)
    if (terms !== undefined && !isAllowedFor(terms, owner))
      throw new UmbraError("E426", notForOwner(id, provider!).message)
  }
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
  keep: async result => result,
  cancel: async () => null,
}
