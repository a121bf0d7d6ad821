/**
 * External work on SQLite: the methods of `ProviderStore`, synchronous, each one transaction. A text for
 * people is stored as a JSON string: it may contain a NUL or a lone surrogate.
 *
 * Changes that belong to a fact (an operation that began or ended, a released slot) are written by `append`,
 * and rows of removed jobs are removed by `purge` and `tidy` (append.ts, journal.ts).
 */
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
} from "../port/providers.ts"
import { type Connection, freeText, json, list, type Sync } from "./database.ts"
import {
  askForSlot,
  grantSlots,
  HAS_OPERATION,
  isHeld,
  type KeyRow,
  keyValues,
  positionOf,
  sendNotice,
  slotKey,
} from "./slots.ts"

type Argument<Verb extends keyof ProviderStore> = Parameters<ProviderStore[Verb]>[0]

const ERRORS_KEPT = 20

export class SqliteProviders implements Sync<ProviderStore> {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  requestSlots(terms: SlotTerms, requests: readonly SlotRequest[]) {
    const connection = this.#connection
    const answer = connection.transaction(() => {
      freeText(terms.provider)
      for (const request of requests) askForSlot(connection, terms, request)
      const areAllHeld = requests.every(request => isHeld(connection, terms, request))
      const granted = areAllHeld ? [] : grantSlots(connection, terms, requests)
      const held = requests.filter(request => isHeld(connection, terms, request))
      const asked = new Set(requests.map(request => keyValues(request).join()))
      const others = granted.filter(slot => !asked.has(keyValues(slot).join()))
      return { held: held.map(keyOf), notified: partitionsOf(others) }
    })
    this.#notify(answer.notified)
    return answer
  }

  grantSlots(terms: SlotTerms): readonly number[] {
    const connection = this.#connection
    return this.#notify(connection.transaction(() => partitionsOf(grantSlots(connection, terms, []))))
  }

  #notify(partitions: readonly number[]): readonly number[] {
    if (partitions.length > 0) this.#connection.notify(partitions)
    return partitions
  }

  releaseSlot(slot: SlotKey): void {
    this.#connection.run("delete from slots where job_id = ? and node = ? and item = ?", ...keyValues(slot))
  }

  renewSlots({ partitions, at, leaseMs }: Argument<"renewSlots">): void {
    this.#connection.run(
      `update slots set held_until = ?
       where partition in (select value from json_each(?)) and held_until > ? and held_until < ?
         and exists (select 1 from jobs as j where j.id = slots.job_id and j.finished_at is null)`,
      ...[at + leaseMs, list(partitions), at, at + leaseMs / 2],
    )
  }

  idleSlots({ partitions, grantedBefore }: Argument<"idleSlots">) {
    const rows = this.#connection.all<KeyRow & { readonly partition: number }>(
      `select s.job_id, s.node, s.item, s.partition
       from slots as s
       where s.partition in (select value from json_each(?)) and s.held_until is not null and s.granted_at < ?
         and not ${HAS_OPERATION}
       order by s.id`,
      ...[list(partitions), grantedBefore],
    )
    return rows.map(row => ({ ...slotKey(row), partition: row.partition }))
  }

  slotPosition(slot: SlotKey & { readonly provider: string }): number | null {
    return positionOf(this.#connection, slot)
  }

  claimOperation(claim: Argument<"claimOperation">): boolean {
    const { provider, externalId, owner, at, abandonedBefore } = claim
    const changed = this.#connection.run(
      `insert into operation_claims as c (provider, external_id, owner, claimed_at) values (?, ?, ?, ?)
       on conflict (provider, external_id) do update
       set owner = excluded.owner, claimed_at = excluded.claimed_at
       where c.owner = excluded.owner
         or (
           c.claimed_at < ?
           and not exists (
             select 1 from operations as o where o.provider = c.provider and o.external_id = c.external_id
           )
         )`,
      ...[freeText(provider), freeText(externalId), owner, at, abandonedBefore],
    )
    return changed > 0
  }

  takeRate({ provider, intervalMs, at: now, maxWaitMs }: Argument<"takeRate">) {
    return this.#connection.transaction(() => {
      const { next_at: nextAt, factor } = this.#pace(provider)
      const at = Math.max(nextAt, now)
      const taken = at - now <= maxWaitMs
      if (taken) this.#setPace(provider, at + intervalMs / factor, Math.min(1, factor + 0.01))
      return { at: Math.ceil(at), taken }
    })
  }

  slowDown({ provider, until }: Argument<"slowDown">): void {
    this.#connection.transaction(() => {
      const { next_at: nextAt, factor } = this.#pace(provider)
      this.#setPace(provider, Math.max(nextAt, until), Math.max(factor / 2, 1 / 64))
    })
  }

  restUntil({ provider }: Argument<"restUntil">): number {
    return Math.ceil(this.#pace(provider).next_at)
  }

  #pace(provider: string): { readonly next_at: number; readonly factor: number } {
    const sql = "select next_at, factor from provider_pace where provider = ?"
    return this.#connection.get(sql, provider) ?? { next_at: 0, factor: 1 }
  }

  #setPace(provider: string, nextAt: number, factor: number): void {
    this.#connection.run(
      `insert into provider_pace (provider, next_at, factor) values (?, ?, ?)
       on conflict (provider) do update set next_at = excluded.next_at, factor = excluded.factor`,
      ...[freeText(provider), nextAt, factor],
    )
  }

  receiveEvent(event: NewWebhookEvent): boolean {
    const { provider, eventId, externalId, receivedAt, verdict, reason, bytes, news } = event
    const names = [freeText(provider), maybe(eventId, freeText), maybe(externalId, freeText)]
    const changed = this.#connection.run(
      `insert into webhook_events (provider, event_id, external_id, received_at, verdict, reason, bytes, news)
       values (?, ?, ?, ?, ?, ?, ?, ?)
       on conflict (provider, event_id) do nothing`,
      ...[...names, receivedAt, verdict, maybe(reason, shown), bytes, maybe(news, json)],
    )
    return changed > 0
  }

  deliverEvents({ operation, at }: Argument<"deliverEvents">): readonly number[] {
    const notified = this.#connection.transaction(() =>
      this.#parkedEvents(operation).flatMap(event => this.#deliver(event, at)),
    )
    return this.#notify([...new Set(notified)])
  }

  /** The parked events whose operation is known. */
  #parkedEvents(operation: OperationName | null): ParkedEvent[] {
    const known =
      "exists (select 1 from operations as o where o.provider = e.provider and o.external_id = e.external_id)"
    const columns = "e.id, e.provider, e.external_id, e.news"
    // Without a hint SQLite reads all webhooks to get them in order.
    const parked = `select ${columns} from webhook_events as e indexed by webhook_events_parked
      where e.verdict = 'parked' and ${known}`
    if (operation === null) return this.#connection.all(`${parked} order by e.id`)
    const { provider, externalId } = operation
    const sql = `${parked} and e.provider = ? and e.external_id = ? order by e.id`
    return this.#connection.all(sql, provider, externalId)
  }

  /**
   * Returns the partitions that have messages. Only jobs of the owner that has the operation are notified.
   */
  #deliver({ id, provider, external_id: externalId, news }: ParkedEvent, at: number): number[] {
    const open = this.#connection.all<KeyRow & { readonly partition: number }>(
      `select o.job_id, o.node, o.item, o.partition
       from operations as o
       left join jobs as j on j.id = o.job_id
       left join operation_claims as c on c.provider = o.provider and c.external_id = o.external_id
       where o.provider = ? and o.external_id = ? and o.ended_at is null and (c.owner is null or c.owner = j.owner)
       order by o.job_id, o.node, o.item`,
      ...[provider, externalId],
    )
    const verdict = open.length > 0 ? "delivered" : "late"
    this.#connection.run("update webhook_events set verdict = ? where id = ?", verdict, id)
    return open.map(row => {
      const cause = `webhook/${id}/${row.job_id}/${row.node}/${row.item}`
      sendNotice(this.#connection, row, { sentAt: at, cause, kind: "external", news })
      return row.partition
    })
  }

  listEvents({ provider, limit }: Argument<"listEvents">): WebhookEventRow[] {
    const rows = this.#connection.all<EventRow>(
      `select event_id, external_id, received_at, verdict, reason, bytes
       from webhook_events where provider = ? order by id desc limit ?`,
      ...[provider, limit],
    )
    return rows.map(row => ({
      eventId: row.event_id,
      externalId: row.external_id,
      receivedAt: row.received_at,
      verdict: row.verdict,
      reason: maybe(row.reason, text => JSON.parse(text) as string),
      bytes: row.bytes,
    }))
  }

  dueCancels({ partitions, providers, at, limit }: Argument<"dueCancels">): DueCancel[] {
    const rows = this.#connection.all<OperationRow & { readonly cancel_tries: number }>(
      `select o.provider, o.external_id, o.job_id, o.node, o.item, o.attempt, o.cancel_tries,
         coalesce(j.owner, '') as owner
       from operations as o left join jobs as j on j.id = o.job_id
       where o.partition in (select value from json_each(?)) and o.cancel_at <= ?
         and o.provider in (select value from json_each(?))
       order by o.cancel_at, o.rowid
       limit ?`,
      ...[list(partitions), at, list(providers), limit],
    )
    return rows.map(row => ({
      ...{ provider: row.provider, externalId: row.external_id, ...slotKey(row) },
      ...{ attempt: row.attempt, tries: row.cancel_tries, owner: row.owner },
    }))
  }

  settleCancel(cancel: Argument<"settleCancel">): void {
    const { provider, externalId, again } = cancel
    this.#connection.run(
      `update operations
       set cancel_at = ?1, cancel_tries = cancel_tries + 1, slot_until = iif(?1 is null, null, slot_until)
       where provider = ? and external_id = ? and job_id = ? and node = ? and item = ?`,
      ...[again, provider, externalId, ...keyValues(cancel)],
    )
  }

  settleSubmission(outcome: Argument<"settleSubmission">) {
    const { attempt, externalId, at } = outcome
    return this.#connection.transaction(() => {
      const submission = this.#connection.get<Submission>(
        `select o.rowid as id, o.provider, j.owner
         from operations as o join jobs as j on j.id = o.job_id
         where o.job_id = ? and o.node = ? and o.item = ? and o.unseen = 1 and o.attempt = ?`,
        ...[...keyValues(outcome), attempt],
      )
      if (submission === undefined) return null
      const { id, provider, owner } = submission
      const isToCancel =
        externalId !== null &&
        this.claimOperation({ provider, externalId, owner, at, abandonedBefore: 0 }) &&
        !this.#isRecorded({ ...outcome, provider })
      if (isToCancel)
        this.#connection.run(
          "update operations set external_id = ?, unseen = 0, ended_at = ?, cancel_at = ? where rowid = ?",
          ...[externalId, at, at, id],
        )
      else this.#connection.run("delete from operations where rowid = ?", id)
      return { provider, isToCancel }
    })
  }

  #isRecorded(
    operation: SlotKey & { readonly provider: string; readonly externalId: string | null },
  ): boolean {
    const sql =
      "select 1 from operations where provider = ? and external_id = ? and job_id = ? and node = ? and item = ?"
    const { provider, externalId } = operation
    return this.#connection.get(sql, provider, externalId, ...keyValues(operation)) !== undefined
  }

  unseenSubmissions(query: Argument<"unseenSubmissions">): UnseenSubmission[] {
    const unseen = `
      select o.provider, o.job_id, o.node, o.item, o.attempt, o.operation, o.submitted_at,
        coalesce(o.slot_until, 0) as slot_until, coalesce(j.owner, '') as owner
      from operations as o left join jobs as j on j.id = o.job_id
      where o.unseen = 1`
    const order = "order by o.submitted_at, o.rowid"
    const rows =
      "jobId" in query
        ? this.#connection.all<UnseenRow>(`${unseen} and o.job_id = ? ${order}`, query.jobId)
        : this.#connection.all<UnseenRow>(
            `${unseen} and o.partition in (select value from json_each(?)) and o.slot_until > ? ${order}`,
            ...[list(query.partitions), query.at],
          )
    return rows.map(row => ({
      ...{ provider: row.provider, ...slotKey(row), attempt: row.attempt, operation: row.operation },
      ...{ owner: row.owner, since: row.submitted_at, slotUntil: row.slot_until },
    }))
  }

  noteError({ provider, at, what, code, message }: Argument<"noteError">): void {
    this.#connection.transaction(() => {
      this.#connection.run(
        "insert into provider_errors (provider, at, what, code, message) values (?, ?, ?, ?, ?)",
        ...[freeText(provider), at, freeText(what), shown(code), shown(message)],
      )
      this.#connection.run(
        `delete from provider_errors
         where provider = ?1
           and id <= (select id from provider_errors where provider = ?1 order by id desc limit 1 offset ?2)`,
        ...[provider, ERRORS_KEPT],
      )
    })
  }

  overview({ provider, at }: Argument<"overview">): ProviderOverview {
    const left = this.#leftAt(provider, at)
    const waiting = this.#connection.get<{ readonly count: number; readonly oldest: number | null }>(
      "select count(*) as count, min(asked_at) as oldest from slots where provider = ? and held_until is null",
      provider,
    )!
    const open = this.#connection.get<{ readonly count: number }>(
      "select count(*) as count from operations where provider = ? and ended_at is null",
      provider,
    )!
    return {
      held: [...this.#heldAt(provider, at), ...left].map(({ owner, since, until, ...row }) => ({
        ...{ ...slotKey(row), owner, grantedAt: since, heldUntil: until },
      })),
      unseen: left
        .filter(({ unseen }) => unseen === 1)
        .map(({ owner, since, until, ...row }) => ({ ...slotKey(row), owner, since, slotUntil: until })),
      waiting: waiting.count,
      oldestAskedAt: waiting.oldest,
      operations: open.count,
      pace: this.#pace(provider).factor,
      errors: this.#errors(provider),
    }
  }

  #heldAt(provider: string, at: number): HolderRow[] {
    return this.#connection.all(
      `select job_id, node, item, owner, granted_at as since, held_until as until
       from slots where provider = ? and held_until > ? order by id`,
      ...[provider, at],
    )
  }

  /** The slots that operations of ended jobs hold at the provider. */
  #leftAt(provider: string, at: number): (HolderRow & { readonly unseen: number })[] {
    return this.#connection.all(
      `select o.job_id, o.node, o.item, coalesce(j.owner, '') as owner, o.submitted_at as since,
         o.slot_until as until, o.unseen
       from operations as o left join jobs as j on j.id = o.job_id
       where o.provider = ? and o.slot_until > ?
       order by o.submitted_at, o.rowid`,
      ...[provider, at],
    )
  }

  #errors(provider: string): ProviderErrorRow[] {
    const rows = this.#connection.all<ProviderErrorRow>(
      "select at, what, code, message from provider_errors where provider = ? order by id desc",
      provider,
    )
    return rows.map(({ at, what, code, message }) => ({
      ...{ at, what, code: JSON.parse(code) as string, message: JSON.parse(message) as string },
    }))
  }
}

interface ParkedEvent {
  readonly id: number
  readonly provider: string
  readonly external_id: string
  readonly news: string
}

interface EventRow {
  readonly event_id: string | null
  readonly external_id: string | null
  readonly received_at: number
  readonly verdict: WebhookEventRow["verdict"]
  readonly reason: string | null
  readonly bytes: number
}

interface OperationRow extends KeyRow {
  readonly provider: string
  readonly external_id: string
  readonly attempt: number
  readonly owner: string
}

interface Submission {
  readonly id: number
  readonly provider: string
  readonly owner: string
}

interface UnseenRow extends KeyRow {
  readonly provider: string
  readonly attempt: number
  readonly operation: number
  readonly submitted_at: number
  readonly slot_until: number
  readonly owner: string
}

interface HolderRow extends KeyRow {
  readonly owner: string
  readonly since: number
  readonly until: number
}

function keyOf({ jobId, node, item }: SlotKey): SlotKey {
  return item === undefined ? { jobId, node } : { jobId, node, item }
}

function partitionsOf(rows: readonly { readonly partition: number }[]): readonly number[] {
  return [...new Set(rows.map(({ partition }) => partition))]
}

function maybe<T, R>(value: T | null, map: (value: T) => R): R | null {
  return value === null ? null : map(value)
}

/** A text for people, with any character. */
function shown(text: string): string {
  return JSON.stringify(text)
}
