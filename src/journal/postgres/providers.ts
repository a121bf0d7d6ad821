import type {
  NewWebhookEvent,
  OperationName,
  ProviderErrorRow,
  ProviderOverview,
  ProviderStore,
  SlotKey,
  SlotRequest,
  SlotTerms,
  WebhookEventRow,
} from "../port/providers.ts"
import type { Database, Row } from "./database.ts"
import { arrayLiteral, itemColumn, textArrayLiteral } from "./encode.ts"
import * as rows from "./rows.ts"

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
    const [jobs, nodes, items] = keys(requests)
    const found = await this.#database.query("askForSlots", [
      terms.provider,
      `${terms.at}`,
      jobs,
      nodes,
      arrayLiteral(requests.map(({ partition }) => partition)),
      textArrayLiteral(requests.map(({ owner }) => owner)),
      items,
    ])
    const held = found.filter(row => row[0] === "held").map(row => slotKey(row))
    if (held.length === requests.length) return { held, notified: [] }
    const granted = await this.#grant(terms, rows.number(found[0], 1), requests)
    const asked = new Set(requests.map(nameOf))
    const others = granted.filter(slot => !asked.has(nameOf(slot)))
    return {
      held: [...held, ...granted.filter(slot => asked.has(nameOf(slot)))],
      notified: this.#notifyPartitions(others),
    }
  }

  async grantSlots(terms: SlotTerms) {
    const [row] = await this.#database.query("providerVersion", [terms.provider])
    return row === undefined ? [] : this.#notifyPartitions(await this.#grant(terms, rows.number(row, 0), []))
  }

  /** Repeats until the count was right: another process may have granted meanwhile. */
  async #grant(terms: SlotTerms, version: number, askers: readonly SlotKey[]): Promise<GrantedSlot[]> {
    const { provider, limit, limitPerOwner = null, at, leaseMs } = terms
    const perOwner = limitPerOwner === null ? null : `${limitPerOwner}`
    for (;;) {
      const figures = [provider, `${version}`, `${limit}`, `${at}`, `${leaseMs}`]
      const found = await this.#database.query("grantSlots", [...figures, ...keys(askers), perOwner])
      if (found.some(row => row[0] === "settled")) return grantedIn(found)
      const [row] = await this.#database.query("providerVersion", [provider])
      version = rows.number(row, 0)
    }
  }

  #notifyPartitions(granted: readonly { readonly partition: number }[]): readonly number[] {
    const partitions = [...new Set(granted.map(({ partition }) => partition))]
    if (partitions.length > 0) this.#notify(partitions)
    return partitions
  }

  async releaseSlot(slot: SlotKey): Promise<void> {
    await this.#database.query("releaseSlot", keyOf(slot))
  }

  async renewSlots({ partitions, at, leaseMs }: Parameters<ProviderStore["renewSlots"]>[0]): Promise<void> {
    await this.#database.query("renewSlots", [arrayLiteral(partitions), `${at}`, `${leaseMs}`])
  }

  async idleSlots({ partitions, grantedBefore }: Parameters<ProviderStore["idleSlots"]>[0]) {
    const parameters = [arrayLiteral(partitions), `${grantedBefore}`]
    const found = await this.#database.query("idleSlots", parameters)
    return found.map(row => ({ ...slotKey(row, 0), partition: rows.number(row, 3) }))
  }

  async slotPosition(slot: SlotKey & { readonly provider: string }): Promise<number | null> {
    const [row] = await this.#database.query("slotPosition", [slot.provider, ...keyOf(slot)])
    return row === undefined ? null : rows.number(row, 0)
  }

  async claimOperation(claim: Parameters<ProviderStore["claimOperation"]>[0]): Promise<boolean> {
    const { provider, externalId, owner, at, abandonedBefore } = claim
    const parameters = [provider, externalId, owner, `${at}`, `${abandonedBefore}`]
    return rows.number((await this.#database.query("claimOperation", parameters))[0], 0) > 0
  }

  async takeRate(take: Parameters<ProviderStore["takeRate"]>[0]) {
    const { provider, intervalMs, at, maxWaitMs } = take
    for (;;) {
      const parameters = [provider, `${intervalMs}`, `${at}`, `${maxWaitMs}`]
      const [row] = await this.#database.query("takeRate", parameters)
      if (row !== undefined) return { at: rows.number(row, 0), taken: row[1] === "t" }
    }
  }

  async slowDown({ provider, until }: { readonly provider: string; readonly until: number }): Promise<void> {
    await this.#database.query("slowDown", [provider, `${until}`])
  }

  async restUntil({ provider }: { readonly provider: string }): Promise<number> {
    const [row] = await this.#database.query("providerRest", [provider])
    return row === undefined ? 0 : rows.number(row, 0)
  }

  async receiveEvent(event: NewWebhookEvent): Promise<boolean> {
    const { provider, eventId, externalId, receivedAt, verdict, reason, bytes, news } = event
    const why = reason === null ? null : shown(reason)
    const parameters = [provider, eventId, externalId, `${receivedAt}`, verdict, why, `${bytes}`, news]
    return rows.number((await this.#database.query("receiveEvent", parameters))[0], 0) > 0
  }

  async deliverEvents(query: { readonly operation: OperationName | null; readonly at: number }) {
    const { operation, at } = query
    const parameters = [operation?.provider ?? null, operation?.externalId ?? null, `${at}`]
    const found = await this.#database.query("deliverEvents", parameters)
    return this.#notifyPartitions(found.map(row => ({ partition: rows.number(row, 0) })))
  }

  async listEvents({ provider, limit }: Parameters<ProviderStore["listEvents"]>[0]) {
    const found = await this.#database.query("listWebhookEvents", [provider, `${limit}`])
    return found.map(row => ({
      eventId: row[0] ?? null,
      externalId: row[1] ?? null,
      receivedAt: rows.number(row, 2),
      verdict: rows.text(row, 3) as WebhookEventRow["verdict"],
      reason: row[4] ?? null,
      bytes: rows.number(row, 5),
    }))
  }

  async dueCancels({ partitions, providers, at, limit }: Parameters<ProviderStore["dueCancels"]>[0]) {
    const parameters = [arrayLiteral(partitions), `${at}`, `${limit}`, textArrayLiteral(providers)]
    return (await this.#database.query("dueCancels", parameters)).map(row => ({
      provider: rows.text(row, 0),
      externalId: rows.text(row, 1),
      ...slotKey(row, 2),
      attempt: rows.number(row, 5),
      tries: rows.number(row, 6),
      owner: rows.text(row, 7),
    }))
  }

  async settleCancel(cancel: Parameters<ProviderStore["settleCancel"]>[0]): Promise<void> {
    const { provider, externalId, again } = cancel
    const parameters = [provider, externalId, ...keyOf(cancel), again === null ? null : `${again}`]
    await this.#database.query("settleCancel", parameters)
  }

  async settleSubmission(outcome: Parameters<ProviderStore["settleSubmission"]>[0]) {
    const { attempt, externalId, at } = outcome
    const parameters = [...keyOf(outcome), `${attempt}`, externalId, `${at}`]
    const [row] = await this.#database.query("settleSubmission", parameters)
    return row === undefined ? null : { provider: rows.text(row, 0), isToCancel: row[1] === "t" }
  }

  async unseenSubmissions(query: Parameters<ProviderStore["unseenSubmissions"]>[0]) {
    const parameters =
      "jobId" in query ? ["{}", "0", query.jobId] : [arrayLiteral(query.partitions), `${query.at}`, null]
    return (await this.#database.query("unseenSubmissions", parameters)).map(row => ({
      provider: rows.text(row, 0),
      ...slotKey(row, 1),
      attempt: rows.number(row, 4),
      operation: rows.number(row, 5),
      since: rows.number(row, 6),
      slotUntil: rows.number(row, 7),
      owner: rows.text(row, 8),
    }))
  }

  async noteError(error: ProviderErrorRow & { readonly provider: string }): Promise<void> {
    const { provider, at, what, code, message } = error
    await this.#database.query("noteProviderError", [provider, `${at}`, what, shown(code), shown(message)])
  }

  async overview({ provider, at }: { readonly provider: string; readonly at: number }) {
    return toOverview(await this.#database.query("providerOverview", [provider, `${at}`]))
  }
}

interface GrantedSlot extends SlotKey {
  readonly partition: number
}

function grantedIn(found: readonly Row[]): GrantedSlot[] {
  return found
    .filter(row => row[0] === "granted")
    .map(row => ({ ...slotKey(row), partition: rows.number(row, 4) }))
}

/** Job, node and item, starting at this column. */
function slotKey(row: Row, column = 1): SlotKey {
  const slot = { jobId: rows.text(row, column), node: rows.number(row, column + 1) }
  const item = rows.number(row, column + 2)
  return item < 0 ? slot : { ...slot, item }
}

function keyOf(slot: SlotKey): [string, string, string] {
  return [slot.jobId, `${slot.node}`, `${itemColumn(slot)}`]
}

function nameOf(slot: SlotKey): string {
  return keyOf(slot).join("/")
}

function keys(slots: readonly SlotKey[]): [string, string, string] {
  return [
    arrayLiteral(slots.map(({ jobId }) => jobId)),
    arrayLiteral(slots.map(({ node }) => node)),
    arrayLiteral(slots.map(itemColumn)),
  ]
}

function toOverview(found: readonly Row[]): ProviderOverview {
  const of = (kind: string) => found.filter(row => row[0] === kind)
  const [waiting] = of("waiting")
  const [pace] = of("pace")
  const unseen = of("unseen")
  return {
    held: [...of("held"), ...unseen].map(row => ({
      ...slotKey(row),
      owner: rows.text(row, 4),
      grantedAt: rows.number(row, 5),
      heldUntil: rows.number(row, 6),
    })),
    unseen: unseen.map(row => ({
      ...slotKey(row),
      owner: rows.text(row, 4),
      since: rows.number(row, 5),
      slotUntil: rows.number(row, 6),
    })),
    waiting: rows.number(waiting, 1),
    oldestAskedAt: waiting === undefined ? null : rows.maybeNumber(waiting, 2),
    operations: rows.number(of("running")[0], 1),
    pace: pace === undefined ? 1 : rows.number(pace, 1),
    errors: of("error").map(row => ({
      at: rows.number(row, 1),
      what: rows.text(row, 2),
      code: rows.text(row, 3),
      message: rows.text(row, 4),
    })),
  }
}

/** A message of a provider, for display: text in PostgreSQL holds every character but this. */
function shown(text: string): string {
  return text.replaceAll("\0", "\ufffd")
}
