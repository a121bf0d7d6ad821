import { type MemoryStore, pair, type StoredOperation, type StoredSlot } from "./memory-store.ts"
import type { NewMessage } from "./port.ts"
import type {
  DueCancel,
  NewWebhookEvent,
  OperationName,
  ProviderErrorRow,
  ProviderOverview,
  ProviderStore,
  SlotKey,
  SlotRequest,
  SlotTerms,
  UnseenSubmission,
  WebhookEventRow,
} from "./provider-store.ts"

/** External work in memory. Every verb reads and writes without an await in between. */
export class MemoryProviderStore implements ProviderStore {
  readonly #store: () => MemoryStore
  readonly #send: (message: NewMessage) => void

  /** `store` refuses once the journal is closed; `send` puts a message into an inbox. */
  constructor(store: () => MemoryStore, send: (message: NewMessage) => void) {
    this.#store = store
    this.#send = send
  }

  async requestSlots(terms: SlotTerms, requests: readonly SlotRequest[]) {
    const { slots } = this.#store()
    const { provider, at } = terms
    const asked = requests.map(request => slotKey(provider, request))
    for (const [index, request] of requests.entries()) {
      const known = slots.get(asked[index]!)
      if (known !== undefined && hasEnded(known, at)) slots.delete(asked[index]!)
      if (!slots.has(asked[index]!))
        slots.set(asked[index]!, { provider, ...request, askedAt: at, grantedAt: 0, heldUntil: null })
    }
    const own = new Set(asked.map(key => slots.get(key)))
    const granted = this.#grant(terms, slot => !own.has(slot))
    const held = requests.filter((_, index) => (slots.get(asked[index]!)?.heldUntil ?? 0) > at)
    return { held, told: partitionsOf(granted.filter(slot => !own.has(slot))) }
  }

  async grantSlots(terms: SlotTerms) {
    return partitionsOf(this.#grant(terms, () => true))
  }

  #grant(terms: SlotTerms, isTold: (slot: StoredSlot) => boolean): StoredSlot[] {
    const { provider, limit, limitPerOwner = null, leaseMs, at } = terms
    const all = this.#slotsOf(provider)
    const held = [
      ...all.filter(slot => slot.heldUntil !== null && slot.heldUntil > at),
      ...this.#leftAt(provider, at),
    ]
    const { slotTurns } = this.#store()
    const next = inTurn(all, held, slotTurns)
      .filter(({ turn }) => limitPerOwner === null || turn <= limitPerOwner)
      .slice(0, Math.max(0, limit - held.length))
      .map(({ slot }) => slot)
    if (next.length > 0) for (const slot of all) if (hasEnded(slot, at)) this.#ended(slot)
    const lastTurn = Math.max(0, ...slotTurns.values()) + 1
    for (const slot of next) {
      slotTurns.set(pair(provider, slot.owner), lastTurn)
      slot.grantedAt = at
      slot.heldUntil = at + leaseMs
      if (!isTold(slot)) continue
      const command = JSON.stringify({ type: "grant_slot", node: slot.node, item: slot.item })
      this.#send({ partition: slot.partition, jobId: slot.jobId, command, sentAt: at })
    }
    return next
  }

  /** Gone if its operation runs on; else its node may want it yet, and waits anew. */
  #ended(slot: StoredSlot): void {
    const { slots, operations } = this.#store()
    const key = slotKey(slot.provider, slot)
    const isRunning = [...operations.values()].some(each => isRunningAt(each) && isSame(each, slot))
    slots.delete(key)
    if (!isRunning) slots.set(key, { ...slot, grantedAt: 0, heldUntil: null })
  }

  async releaseSlot(released: SlotKey): Promise<void> {
    for (const [key, slot] of this.#store().slots) if (isSame(slot, released)) this.#store().slots.delete(key)
  }

  async renewSlots({ partitions, at, leaseMs }: Parameters<ProviderStore["renewSlots"]>[0]): Promise<void> {
    const { slots, jobs } = this.#store()
    for (const slot of slots.values()) {
      const { heldUntil } = slot
      if (heldUntil === null || heldUntil <= at || heldUntil >= at + leaseMs / 2) continue
      const isUnfinished = jobs.get(slot.jobId)?.finishedAt === null
      if (isUnfinished && partitions.includes(slot.partition)) slot.heldUntil = at + leaseMs
    }
  }

  async idleSlots({ partitions, grantedBefore }: Parameters<ProviderStore["idleSlots"]>[0]) {
    const { slots, operations } = this.#store()
    const open = [...operations.values()].filter(isRunningAt)
    return [...slots.values()].flatMap(({ partition, grantedAt, heldUntil, ...slot }) => {
      const isHeld = heldUntil !== null && grantedAt < grantedBefore
      const isIdle = isHeld && partitions.includes(partition) && !open.some(each => isSame(each, slot))
      return isIdle ? [{ ...keyOf(slot), partition }] : []
    })
  }

  async slotPosition(slot: SlotKey & { readonly provider: string }): Promise<number | null> {
    const all = this.#slotsOf(slot.provider)
    const held = all.filter(({ heldUntil }) => heldUntil !== null)
    const index = inTurn(all, held, this.#store().slotTurns).findIndex(waiting => isSame(waiting.slot, slot))
    return index === -1 ? null : index + 1
  }

  /** What ended jobs still hold of the provider. */
  #leftAt(provider: string, at: number) {
    const { operations, jobs } = this.#store()
    return [...operations.values()]
      .filter(operation => operation.provider === provider && (operation.slotUntil ?? 0) > at)
      .map(operation => ({ ...operation, owner: jobs.get(operation.jobId)?.owner ?? "" }))
  }

  #slotsOf(provider: string): StoredSlot[] {
    return [...this.#store().slots.values()].filter(slot => slot.provider === provider)
  }

  async claimOperation(claim: Parameters<ProviderStore["claimOperation"]>[0]): Promise<boolean> {
    const { claims, operations } = this.#store()
    const key = claimKey(claim)
    const known = claims.get(key)
    const isOthers = known !== undefined && known.owner !== claim.owner
    const isRecorded = () => [...operations.values()].some(operation => claimKey(operation) === key)
    if (isOthers && (known.claimedAt >= claim.abandonedBefore || isRecorded())) return false
    claims.set(key, { owner: claim.owner, claimedAt: claim.at })
    return true
  }

  async takeRate(take: Parameters<ProviderStore["takeRate"]>[0]) {
    const { provider, intervalMs, at: now, maxWaitMs } = take
    const { nextAt, factor } = this.#store().pace.get(provider) ?? { nextAt: 0, factor: 1 }
    const at = Math.max(nextAt, now)
    const taken = at - now <= maxWaitMs
    if (taken)
      this.#store().pace.set(provider, {
        nextAt: at + intervalMs / factor,
        factor: Math.min(1, factor + 0.01),
      })
    return { at: Math.ceil(at), taken }
  }

  async slowDown({ provider, until }: { readonly provider: string; readonly until: number }): Promise<void> {
    const { nextAt, factor } = this.#store().pace.get(provider) ?? { nextAt: 0, factor: 1 }
    this.#store().pace.set(provider, {
      nextAt: Math.max(nextAt, until),
      factor: Math.max(factor / 2, 1 / 64),
    })
  }

  async restUntil({ provider }: { readonly provider: string }): Promise<number> {
    return Math.ceil(this.#store().pace.get(provider)?.nextAt ?? 0)
  }

  async receiveEvent(event: NewWebhookEvent): Promise<boolean> {
    const { events } = this.#store()
    const { provider, eventId } = event
    const isKnown = events.some(known => known.provider === provider && known.eventId === eventId)
    if (eventId !== null && isKnown) return false
    events.push({ ...event })
    return true
  }

  async deliverEvents(query: { readonly operation: OperationName | null; readonly at: number }) {
    const { operation, at } = query
    const told: StoredOperation[] = []
    for (const event of this.#store().events) {
      if (event.verdict !== "parked") continue
      if (operation !== null && !isOf(event, operation)) continue
      const operations = [...this.#store().operations.values()].filter(known => isOf(event, known))
      if (operations.length === 0) continue
      const open = operations.filter(known => known.endedAt === null && this.#isOwners(known))
      event.verdict = open.length > 0 ? "delivered" : "late"
      for (const { partition, jobId, node, item } of open) {
        const which = item === undefined ? "" : `"item":${item},`
        const command = `{"type":"external","node":${node},${which}${event.news!.slice(1)}`
        this.#send({ partition, jobId, command, sentAt: at })
      }
      told.push(...open)
    }
    return partitionsOf(told)
  }

  #isOwners(operation: StoredOperation): boolean {
    const { claims, jobs } = this.#store()
    const claim = claims.get(claimKey(operation))
    return claim === undefined || claim.owner === jobs.get(operation.jobId)?.owner
  }

  async listEvents({ provider, limit }: Parameters<ProviderStore["listEvents"]>[0]) {
    const of = this.#store().events.filter(event => event.provider === provider)
    return of
      .reverse()
      .slice(0, limit)
      .map(
        ({ eventId, externalId, receivedAt, verdict, reason, bytes }): WebhookEventRow => ({
          ...{ eventId, externalId, receivedAt, verdict, reason, bytes },
        }),
      )
  }

  async dueCancels({ partitions, providers, at, limit }: Parameters<ProviderStore["dueCancels"]>[0]) {
    return [...this.#store().operations.values()]
      .filter(({ provider }) => providers.includes(provider))
      .filter(
        ({ cancelAt, partition }) => cancelAt !== null && cancelAt <= at && partitions.includes(partition),
      )
      .sort((a, b) => a.cancelAt! - b.cancelAt!)
      .slice(0, limit)
      .map(({ provider, externalId, attempt, tries, ...operation }): DueCancel => {
        const owner = this.#store().jobs.get(operation.jobId)?.owner ?? ""
        return { provider, externalId, ...keyOf(operation), attempt, tries, owner }
      })
  }

  async settleCancel(cancel: Parameters<ProviderStore["settleCancel"]>[0]): Promise<void> {
    const operation = this.#store().operations.get(operationKey(cancel))
    if (operation === undefined) return
    operation.cancelAt = cancel.again
    if (cancel.again === null) operation.slotUntil = null
    operation.tries++
  }

  async settleSubmission(outcome: Parameters<ProviderStore["settleSubmission"]>[0]) {
    const { operations, claims, jobs } = this.#store()
    const { attempt, externalId, at } = outcome
    const [key, submission] =
      [...operations].find(([, each]) => each.unseen && each.attempt === attempt && isSame(each, outcome)) ??
      []
    if (key === undefined || submission === undefined) return null
    operations.delete(key)
    const { provider } = submission
    if (externalId === null) return { provider, isToCancel: false }
    const { unseen: _, ...named } = { ...submission, externalId, endedAt: at, cancelAt: at }
    const owner = jobs.get(outcome.jobId)?.owner ?? ""
    const claim = claims.get(claimKey(named))
    const isToCancel = !operations.has(operationKey(named)) && (claim === undefined || claim.owner === owner)
    if (isToCancel) {
      claims.set(claimKey(named), { owner, claimedAt: at })
      operations.set(operationKey(named), named)
    }
    return { provider, isToCancel }
  }

  async unseenSubmissions(query: Parameters<ProviderStore["unseenSubmissions"]>[0]) {
    const { operations, jobs } = this.#store()
    return [...operations.values()]
      .filter(({ unseen }) => unseen !== undefined)
      .filter(({ jobId, partition, slotUntil }) =>
        "jobId" in query
          ? jobId === query.jobId
          : query.partitions.includes(partition) && (slotUntil ?? 0) > query.at,
      )
      .map(({ provider, attempt, unseen, submittedAt: since, slotUntil, ...slot }): UnseenSubmission => {
        const owner = jobs.get(slot.jobId)?.owner ?? ""
        const until = slotUntil ?? 0
        return {
          provider,
          ...keyOf(slot),
          attempt,
          operation: unseen!.operation,
          owner,
          since,
          slotUntil: until,
        }
      })
  }

  async noteError({ provider, ...error }: ProviderErrorRow & { readonly provider: string }): Promise<void> {
    const { providerErrors } = this.#store()
    providerErrors.set(provider, [error, ...(providerErrors.get(provider) ?? [])].slice(0, 20))
  }

  async overview({ provider, at }: { readonly provider: string; readonly at: number }) {
    const slots = this.#slotsOf(provider)
    const waiting = slots.filter(({ heldUntil }) => heldUntil === null)
    const held = slots.flatMap(({ owner, grantedAt, heldUntil, ...slot }) =>
      heldUntil !== null && heldUntil > at ? [{ ...keyOf(slot), owner, grantedAt, heldUntil }] : [],
    )
    const operations = [...this.#store().operations.values()]
    const left = this.#leftAt(provider, at)
    return {
      held: [
        ...held,
        ...left.map(({ owner, submittedAt, slotUntil, ...slot }) => {
          return { ...keyOf(slot), owner, grantedAt: submittedAt, heldUntil: slotUntil! }
        }),
      ],
      unseen: left
        .filter(({ unseen }) => unseen !== undefined)
        .map(({ owner, submittedAt: since, slotUntil, ...slot }) => {
          return { ...keyOf(slot), owner, since, slotUntil: slotUntil! }
        }),
      waiting: waiting.length,
      oldestAskedAt: waiting[0]?.askedAt ?? null,
      operations: operations.filter(known => known.provider === provider && known.endedAt === null).length,
      pace: this.#store().pace.get(provider)?.factor ?? 1,
      errors: this.#store().providerErrors.get(provider) ?? [],
    } satisfies ProviderOverview
  }
}

function isRunningAt({ endedAt, unseen }: StoredOperation): boolean {
  return endedAt === null && unseen === undefined
}

/** Who waits, in the order of the grants; `turn`: how many its owner holds once it has its slot. */
function inTurn(
  all: readonly StoredSlot[],
  held: readonly { readonly owner: string }[],
  slotTurns: MemoryStore["slotTurns"],
) {
  const turns = new Map<string, number>()
  const next = (owner: string) => {
    const turn = (turns.get(owner) ?? 0) + 1
    turns.set(owner, turn)
    return turn
  }
  for (const { owner } of held) next(owner)
  const waiting = all.filter(({ heldUntil }) => heldUntil === null)
  return waiting
    .map(slot => {
      const { provider, owner } = slot
      return { slot, turn: next(owner), lastTurn: slotTurns.get(pair(provider, owner)) ?? 0 }
    })
    .sort((a, b) => a.turn - b.turn || a.lastTurn - b.lastTurn)
}

export function claimKey({ provider, externalId }: OperationName): string {
  return pair(provider, externalId)
}

export function operationKey(operation: OperationName & SlotKey): string {
  const { provider, externalId, jobId, node, item } = operation
  return JSON.stringify([provider, externalId, jobId, node, item])
}

export function isSame(one: SlotKey, other: SlotKey): boolean {
  return one.jobId === other.jobId && one.node === other.node && one.item === other.item
}

function keyOf({ jobId, node, item }: SlotKey): SlotKey {
  return item === undefined ? { jobId, node } : { jobId, node, item }
}

function partitionsOf(rows: readonly { readonly partition: number }[]): readonly number[] {
  return [...new Set(rows.map(({ partition }) => partition))]
}

function slotKey(provider: string, { jobId, node, item }: SlotKey): string {
  return JSON.stringify([provider, jobId, node, item])
}

function isOf(event: { provider: string; externalId: string | null }, operation: OperationName): boolean {
  return event.provider === operation.provider && event.externalId === operation.externalId
}

function hasEnded({ heldUntil }: StoredSlot, at: number): boolean {
  return heldUntil !== null && heldUntil <= at
}
