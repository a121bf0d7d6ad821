import type {
  DueCancel,
  JobWebhook,
  NewWebhookEvent,
  OperationName,
  ProviderErrorRow,
  ProviderStore,
  SlotKey,
  SlotRequest,
  SlotTerms,
  UnseenSubmission,
  WebhookEventRow,
} from "../port/providers.ts"
import {
  itemColumn,
  keyValues,
  partitionsOf,
  providerOverview,
  type StoredOverview,
  type StoredSlot,
  slotName,
  slotRow,
} from "../rows.ts"
import type { Database, Statement, Values } from "./database.ts"

/** External work on PostgreSQL. */
export class SqlProviderStore implements ProviderStore {
  readonly #database: Database
  readonly #notify: (partitions: readonly number[]) => void

  /** `notify`: called with the partitions that have new messages. */
  constructor(database: Database, notify: (partitions: readonly number[]) => void) {
    this.#database = database
    this.#notify = notify
  }

  async requestSlots(terms: SlotTerms, requests: readonly SlotRequest[]) {
    const [jobs, nodes, items] = keyColumns(requests)
    const partitions = requests.map(({ partition }) => partition)
    const owners = requests.map(({ owner }) => owner)
    const values = [terms.provider, terms.at, jobs, nodes, partitions, owners, items]
    const [found] = await this.#database.query<{ version: number; held: KeyRow[] }>("askForSlots", values)
    const held = found!.held.map(slotRow)
    if (held.length === requests.length) return { held, notified: [] }
    const granted = await this.#grant(terms, found!.version, requests)
    const asked = new Set(requests.map(slotName))
    const own = granted.filter(slot => asked.has(slotName(slot)))
    const others = granted.filter(slot => !asked.has(slotName(slot)))
    return { held: [...held, ...own], notified: this.#notifyPartitions(others) }
  }

  async grantSlots(terms: SlotTerms) {
    const version = await this.#version(terms.provider)
    return version === undefined ? [] : this.#notifyPartitions(await this.#grant(terms, version, []))
  }

  async #version(provider: string): Promise<number | undefined> {
    return (await this.#database.query<{ version: number }>("providerVersion", [provider]))[0]?.version
  }

  /** Repeats until the count was right: another process may have granted meanwhile. */
  async #grant(terms: SlotTerms, version: number, askers: readonly SlotKey[]) {
    const { provider, limit, limitPerOwner, at, leaseMs } = terms
    for (let known = version; ; known = (await this.#version(provider))!) {
      const values = [provider, known, limit, at, leaseMs, ...keyColumns(askers), limitPerOwner]
      const [found] = await this.#database.query<Granted>("grantSlots", values)
      if (found!.isSettled) return found!.granted.map(slotRow)
    }
  }

  #notifyPartitions(granted: readonly { readonly partition: number }[]): readonly number[] {
    const partitions = partitionsOf(granted)
    if (partitions.length > 0) this.#notify(partitions)
    return partitions
  }

  async releaseSlot(slot: SlotKey): Promise<void> {
    await this.#database.query("releaseSlot", keyValues(slot))
  }

  async renewSlots({ partitions, at, leaseMs }: Parameters<ProviderStore["renewSlots"]>[0]): Promise<void> {
    await this.#database.query("renewSlots", [partitions, at, leaseMs])
  }

  async idleSlots({ partitions, grantedBefore }: Parameters<ProviderStore["idleSlots"]>[0]) {
    const values = [partitions, grantedBefore]
    return (await this.#database.query<KeyRow & { partition: number }>("idleSlots", values)).map(slotRow)
  }

  async slotPosition(slot: SlotKey & { readonly provider: string }): Promise<number | null> {
    const values = [slot.provider, ...keyValues(slot)]
    return (await this.#database.query<{ position: number }>("slotPosition", values))[0]?.position ?? null
  }

  async claimOperation(claim: Parameters<ProviderStore["claimOperation"]>[0]): Promise<boolean> {
    const { provider, externalId, owner, at, abandonedBefore } = claim
    return this.#hasChanged("claimOperation", [provider, externalId, owner, at, abandonedBefore])
  }

  async takeRate(take: Parameters<ProviderStore["takeRate"]>[0]) {
    const { provider, intervalMs, at, maxWaitMs } = take
    const values = [provider, intervalMs, at, maxWaitMs]
    for (;;) {
      const [row] = await this.#database.query<{ at: number; taken: boolean }>("takeRate", values)
      if (row !== undefined) return row
    }
  }

  async slowDown({ provider, until }: { readonly provider: string; readonly until: number }): Promise<void> {
    await this.#database.query("slowDown", [provider, until])
  }

  async restUntil({ provider }: { readonly provider: string }): Promise<number> {
    return (await this.#database.query<{ until: number }>("providerRest", [provider]))[0]?.until ?? 0
  }

  async receiveEvent(event: NewWebhookEvent): Promise<boolean> {
    const { provider, eventId, externalId, receivedAt, verdict, reason, bytes, news } = event
    const why = reason === null ? null : shown(reason)
    const values = [provider, eventId, externalId, receivedAt, verdict, why, bytes, news]
    return this.#hasChanged("receiveEvent", values)
  }

  async deliverEvents({ operation, at }: { readonly operation: OperationName | null; readonly at: number }) {
    const values = [operation?.provider, operation?.externalId, at]
    return this.#notifyPartitions(await this.#database.query<{ partition: number }>("deliverEvents", values))
  }

  async listEvents({ provider, limit }: Parameters<ProviderStore["listEvents"]>[0]) {
    return this.#database.query<WebhookEventRow>("listWebhookEvents", [provider, limit])
  }

  async jobWebhooks({ jobId, after, limit, perOperation }: Parameters<ProviderStore["jobWebhooks"]>[0]) {
    return this.#database.query<JobWebhook>("jobWebhooks", [jobId, after, limit, perOperation])
  }

  async dueCancels({ partitions, providers, at, limit }: Parameters<ProviderStore["dueCancels"]>[0]) {
    const values = [partitions, at, limit, providers]
    return (await this.#database.query<StoredSlot<DueCancel>>("dueCancels", values)).map(slotRow)
  }

  async settleCancel(cancel: Parameters<ProviderStore["settleCancel"]>[0]): Promise<void> {
    const { provider, externalId, again } = cancel
    await this.#database.query("settleCancel", [provider, externalId, ...keyValues(cancel), again])
  }

  async settleSubmission(outcome: Parameters<ProviderStore["settleSubmission"]>[0]) {
    const { attempt, externalId, at } = outcome
    const values = [...keyValues(outcome), attempt, externalId, at]
    const [row] = await this.#database.query<{ provider: string; isToCancel: boolean }>(
      "settleSubmission",
      values,
    )
    return row ?? null
  }

  async unseenSubmissions(query: Parameters<ProviderStore["unseenSubmissions"]>[0]) {
    const values = "jobId" in query ? [[], 0, query.jobId] : [query.partitions, query.at, null]
    return (await this.#database.query<StoredSlot<UnseenSubmission>>("unseenSubmissions", values)).map(
      slotRow,
    )
  }

  async noteError(error: ProviderErrorRow & { readonly provider: string }): Promise<void> {
    const { provider, at, what, code, message } = error
    await this.#database.query("noteProviderError", [provider, at, what, shown(code), shown(message)])
  }

  async overview({ provider, at }: { readonly provider: string; readonly at: number }) {
    const [found] = await this.#database.query<StoredOverview>("providerOverview", [provider, at])
    return providerOverview(found!)
  }

  async #hasChanged(statement: Statement, values: Values): Promise<boolean> {
    return (await this.#database.query<{ count: number }>(statement, values))[0]!.count > 0
  }
}

type KeyRow = StoredSlot<SlotKey>

interface Granted {
  readonly isSettled: boolean
  readonly granted: readonly (KeyRow & { readonly partition: number })[]
}

function keyColumns(slots: readonly SlotKey[]): [jobs: string[], nodes: number[], items: number[]] {
  return [slots.map(({ jobId }) => jobId), slots.map(({ node }) => node), slots.map(itemColumn)]
}

/** A message of a provider, for display: text in PostgreSQL holds every character but this. */
function shown(text: string): string {
  return text.replaceAll("\0", "\ufffd")
}
