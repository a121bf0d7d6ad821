import type {
  DueCancel,
  JobWebhook,
  NewWebhookEvent,
  ProviderStore,
  SlotKey,
  SlotRequest,
  SlotTerms,
  UnseenSubmission,
  WebhookEventRow,
} from "../port/providers.ts"
import {
  distinctPartitions,
  itemColumn,
  keyed,
  providerOverview,
  type StoredOverview,
  type StoredSlot,
  slotName,
  slotRow,
} from "../rows.ts"
import { type Database, SqlStore } from "./database.ts"

type Argument<Verb extends keyof ProviderStore> = Parameters<ProviderStore[Verb]>[0]

/** External work on PostgreSQL. */
export class SqlProviderStore extends SqlStore implements ProviderStore {
  readonly #notify: (partitions: readonly number[]) => void

  /** `notify`: called with the partitions that have new messages. */
  constructor(database: Database, notify: (partitions: readonly number[]) => void) {
    super(database)
    this.#notify = notify
  }

  async requestSlots(terms: SlotTerms, requests: readonly SlotRequest[]) {
    const partitions = requests.map(({ partition }) => partition)
    const owners = requests.map(({ owner }) => owner)
    const values = { ...terms, ...keyColumns(requests), partitions, owners }
    const { version, held: rows } = (await this.first<{ version: number; held: KeyRow[] }>(
      "askForSlots",
      values,
    ))!
    const held = rows.map(slotRow)
    if (held.length === requests.length) return { held, notified: [] }
    const granted = await this.#grant(terms, version, requests)
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
    return (await this.first<{ version: number }>("providerVersion", { provider }))?.version
  }

  /** Repeats until the count was right: another process may have granted meanwhile. */
  async #grant(terms: SlotTerms, known: number, askers: readonly SlotKey[]) {
    for (let version = known; ; version = (await this.#version(terms.provider))!) {
      const found = await this.first<Granted>("grantSlots", { ...terms, ...keyColumns(askers), version })
      if (found!.isSettled) return found!.granted.map(slotRow)
    }
  }

  #notifyPartitions(granted: readonly { readonly partition: number }[]): readonly number[] {
    const partitions = distinctPartitions(granted)
    if (partitions.length > 0) this.#notify(partitions)
    return partitions
  }

  async releaseSlot(slot: SlotKey): Promise<void> {
    await this.database.query("releaseSlot", keyed(slot))
  }

  async renewSlots(renewal: Argument<"renewSlots">): Promise<void> {
    await this.database.query("renewSlots", renewal)
  }

  async idleSlots(query: Argument<"idleSlots">) {
    return (await this.database.query<KeyRow & { partition: number }>("idleSlots", query)).map(slotRow)
  }

  async slotPosition(slot: Argument<"slotPosition">): Promise<number | null> {
    return (await this.first<{ position: number }>("slotPosition", keyed(slot)))?.position ?? null
  }

  async claimOperation(claim: Argument<"claimOperation">): Promise<boolean> {
    return (await this.counted("claimOperation", claim)) > 0
  }

  async takeRate(take: Argument<"takeRate">) {
    return (await this.untilFound<{ at: number; taken: boolean }>("takeRate", take))[0]!
  }

  async slowDown(slowing: Argument<"slowDown">): Promise<void> {
    await this.database.query("slowDown", slowing)
  }

  async restUntil(query: Argument<"restUntil">): Promise<number> {
    return (await this.first<{ until: number }>("providerRest", query))?.until ?? 0
  }

  async receiveEvent({ reason, ...event }: NewWebhookEvent): Promise<boolean> {
    const values = { ...event, reason: reason === null ? null : shown(reason) }
    return (await this.counted("receiveEvent", values)) > 0
  }

  async deliverEvents({ operation, at }: Argument<"deliverEvents">) {
    const values = { ...operation, at }
    return this.#notifyPartitions(await this.database.query<{ partition: number }>("deliverEvents", values))
  }

  async listEvents(query: Argument<"listEvents">) {
    return this.database.query<WebhookEventRow>("listWebhookEvents", query)
  }

  async jobWebhooks(query: Argument<"jobWebhooks">) {
    return this.database.query<JobWebhook>("jobWebhooks", query)
  }

  async dueCancels(query: Argument<"dueCancels">) {
    return (await this.database.query<StoredSlot<DueCancel>>("dueCancels", query)).map(slotRow)
  }

  async settleCancel(cancel: Argument<"settleCancel">): Promise<void> {
    await this.database.query("settleCancel", keyed(cancel))
  }

  async settleSubmission(outcome: Argument<"settleSubmission">) {
    const values = keyed(outcome)
    return (await this.first<{ provider: string; isToCancel: boolean }>("settleSubmission", values)) ?? null
  }

  async unseenSubmissions(query: Argument<"unseenSubmissions">) {
    return (await this.database.query<StoredSlot<UnseenSubmission>>("unseenSubmissions", query)).map(slotRow)
  }

  async noteError(error: Argument<"noteError">): Promise<void> {
    const { code, message } = error
    await this.database.query("noteProviderError", { ...error, code: shown(code), message: shown(message) })
  }

  async overview(query: Argument<"overview">) {
    return providerOverview((await this.first<StoredOverview>("providerOverview", query))!)
  }
}

type KeyRow = StoredSlot<SlotKey>

interface Granted {
  readonly isSettled: boolean
  readonly granted: readonly (KeyRow & { readonly partition: number })[]
}

function keyColumns(slots: readonly SlotKey[]) {
  return {
    jobs: slots.map(({ jobId }) => jobId),
    nodes: slots.map(({ node }) => node),
    items: slots.map(itemColumn),
  }
}

/** A message of a provider, for display: text in PostgreSQL holds every character but this. */
function shown(text: string): string {
  return text.replaceAll("\0", "\ufffd")
}
