/**
 * External work on SQLite: the methods of `ProviderStore`, synchronous, each one transaction. A text for
 * people is stored as a JSON string: it may contain a NUL or a lone surrogate.
 *
 * Changes that belong to a fact (an operation that began or ended, a released slot) are written by `append`,
 * and rows of removed jobs are removed by `purge` and `tidy` (append.ts, journal.ts).
 */
import type {
  DueCancel,
  JobWebhook,
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
import {
  distinctPartitions,
  keyed,
  providerOverview,
  type StoredHolder,
  type StoredSlot,
  slotName,
  slotRow,
} from "../rows.ts"
import { freeText, json, SqliteStore, type Sync } from "./database.ts"
import {
  askForSlot,
  grantSlots,
  HAS_OPERATION,
  isHeld,
  type KeyRow,
  sendNotice,
  slotPosition,
} from "./slots.ts"

type Argument<Verb extends keyof ProviderStore> = Parameters<ProviderStore[Verb]>[0]

/** One row of `operations`. */
const IS_OPERATION =
  "provider = @provider and external_id = @external_id and job_id = @job_id and node = @node and item = @item"

const ERRORS_KEPT = 20

export class SqliteProviders extends SqliteStore implements Sync<ProviderStore> {
  requestSlots(terms: SlotTerms, requests: readonly SlotRequest[]) {
    const connection = this.connection
    const answer = connection.transaction(() => {
      freeText(terms.provider)
      for (const request of requests) askForSlot(connection, terms, request)
      const areAllHeld = requests.every(request => isHeld(connection, terms, request))
      const granted = areAllHeld ? [] : grantSlots(connection, terms, requests)
      const held = requests.filter(request => isHeld(connection, terms, request))
      const asked = new Set(requests.map(slotName))
      const others = granted.filter(slot => !asked.has(slotName(slot)))
      return { held: held.map(slotKey), notified: distinctPartitions(others) }
    })
    this.#notify(answer.notified)
    return answer
  }

  grantSlots(terms: SlotTerms): readonly number[] {
    const connection = this.connection
    return this.#notify(connection.transaction(() => distinctPartitions(grantSlots(connection, terms, []))))
  }

  #notify(partitions: readonly number[]): readonly number[] {
    if (partitions.length > 0) this.connection.notify(partitions)
    return partitions
  }

  releaseSlot(slot: SlotKey): void {
    this.connection.run(
      "delete from slots where job_id = @job_id and node = @node and item = @item",
      keyed(slot),
    )
  }

  renewSlots(renewal: Argument<"renewSlots">): void {
    this.connection.run(
      `update slots set held_until = @at + @lease_ms
       where partition in (select value from json_each(@partitions)) and held_until > @at and held_until < @at + @lease_ms / 2.0
         and exists (select 1 from jobs as j where j.id = slots.job_id and j.finished_at is null)`,
      renewal,
    )
  }

  idleSlots(query: Argument<"idleSlots">) {
    const rows = this.connection.all<KeyRow & { readonly partition: number }>(
      `select s.job_id as jobId, s.node, s.item, s.partition
       from slots as s
       where s.partition in (select value from json_each(@partitions)) and s.held_until is not null
         and s.granted_at < @granted_before
         and not ${HAS_OPERATION}
       order by s.id`,
      query,
    )
    return rows.map(slotRow)
  }

  slotPosition(slot: SlotKey & { readonly provider: string }): number | null {
    return slotPosition(this.connection, slot)
  }

  claimOperation(claim: Argument<"claimOperation">): boolean {
    const changed = this.connection.run(
      `insert into operation_claims as c (provider, external_id, owner, claimed_at)
       values (@provider, @external_id, @owner, @at)
       on conflict (provider, external_id) do update
       set owner = excluded.owner, claimed_at = excluded.claimed_at
       where c.owner = excluded.owner
         or (
           c.claimed_at < @abandoned_before
           and not exists (
             select 1 from operations as o where o.provider = c.provider and o.external_id = c.external_id
           )
         )`,
      claim,
    )
    return changed > 0
  }

  takeRate({ provider, intervalMs, at: now, maxWaitMs }: Argument<"takeRate">) {
    return this.connection.transaction(() => {
      const { nextAt, factor } = this.#pace(provider)
      const at = Math.max(nextAt, now)
      const taken = at - now <= maxWaitMs
      if (taken) this.#setPace(provider, at + intervalMs / factor, Math.min(1, factor + 0.01))
      return { at: Math.ceil(at), taken }
    })
  }

  slowDown({ provider, until }: Argument<"slowDown">): void {
    this.connection.transaction(() => {
      const { nextAt, factor } = this.#pace(provider)
      this.#setPace(provider, Math.max(nextAt, until), Math.max(factor / 2, 1 / 64))
    })
  }

  restUntil({ provider }: Argument<"restUntil">): number {
    return Math.ceil(this.#pace(provider).nextAt)
  }

  #pace(provider: string): { readonly nextAt: number; readonly factor: number } {
    const sql = "select next_at as nextAt, factor from provider_pace where provider = ?"
    return this.connection.get(sql, provider) ?? { nextAt: 0, factor: 1 }
  }

  #setPace(provider: string, nextAt: number, factor: number): void {
    this.connection.run(
      `insert into provider_pace (provider, next_at, factor) values (@provider, @next_at, @factor)
       on conflict (provider) do update set next_at = excluded.next_at, factor = excluded.factor`,
      { provider, nextAt, factor },
    )
  }

  receiveEvent({ reason, news, ...event }: NewWebhookEvent): boolean {
    const changed = this.connection.run(
      `insert into webhook_events (provider, event_id, external_id, received_at, verdict, reason, bytes, news)
       values (@provider, @event_id, @external_id, @received_at, @verdict, @reason, @bytes, @news)
       on conflict (provider, event_id) do nothing`,
      { ...event, reason: maybe(reason, shown), news: maybe(news, json) },
    )
    return changed > 0
  }

  deliverEvents({ operation, at }: Argument<"deliverEvents">): readonly number[] {
    const notified = this.connection.transaction(() =>
      this.#parkedEvents(operation).flatMap(event => this.#deliver(event, at)),
    )
    return this.#notify([...new Set(notified)])
  }

  /** The parked events whose operation is known. */
  #parkedEvents(operation: OperationName | null): ParkedEvent[] {
    const ofOne = operation === null ? "" : "and e.provider = @provider and e.external_id = @external_id"
    // Without a hint SQLite reads all webhooks to get them in order.
    return this.connection.all(
      `select e.id, e.provider, e.external_id as externalId, e.news
       from webhook_events as e indexed by webhook_events_parked
       where e.verdict = 'parked' ${ofOne}
         and exists (select 1 from operations as o where o.provider = e.provider and o.external_id = e.external_id)
       order by e.id`,
      ...(operation === null ? [] : [operation]),
    )
  }

  /** Returns the partitions that have messages. Only jobs of the owner that has the operation are notified. */
  #deliver({ id, provider, externalId, news }: ParkedEvent, at: number): number[] {
    const sql = `select o.job_id as jobId, o.node, o.item, o.partition
     from operations as o
     left join jobs as j on j.id = o.job_id
     left join operation_claims as c on c.provider = o.provider and c.external_id = o.external_id
     where o.provider = ? and o.external_id = ? and o.ended_at is null and (c.owner is null or c.owner = j.owner)
     order by o.job_id, o.node, o.item`
    const open = this.connection.all<KeyRow & { readonly partition: number }>(sql, provider, externalId)
    const verdict = open.length > 0 ? "delivered" : "late"
    this.connection.run("update webhook_events set verdict = ? where id = ?", verdict, id)
    return open.map(row => {
      const cause = `webhook/${id}/${slotName(row)}`
      sendNotice(this.connection, row, { sentAt: at, cause, kind: "external", news })
      return row.partition
    })
  }

  listEvents({ provider, limit }: Argument<"listEvents">): WebhookEventRow[] {
    const sql = `select event_id as eventId, external_id as externalId, received_at as receivedAt, verdict, reason, bytes
     from webhook_events where provider = ? order by id desc limit ?`
    const rows = this.connection.all<WebhookEventRow>(sql, provider, limit)
    return rows.map(row => ({ ...row, reason: maybe(row.reason, text => JSON.parse(text) as string) }))
  }

  jobWebhooks(query: Argument<"jobWebhooks">): JobWebhook[] {
    const rows = this.connection.all<Omit<JobWebhook, "tasks"> & { readonly tasks: string }>(
      `select e.id, e.provider, e.external_id as externalId, e.received_at as receivedAt, e.verdict, e.reason,
         json_group_array(json_array(o.node, o.item)) as tasks
       from operations as o
       join jobs as j on j.id = o.job_id
       left join operation_claims as c on c.provider = o.provider and c.external_id = o.external_id
       join webhook_events as e on e.id in (
         select w.id from webhook_events as w
         where w.provider = o.provider and w.external_id = o.external_id and w.verdict in ('late', 'refused')
         order by w.id
         limit @per_operation
       )
       where o.job_id = @job_id and (c.owner is null or c.owner = j.owner) and e.id > @after
       group by e.id
       order by e.id
       limit @limit`,
      query,
    )
    return rows.map(({ tasks, reason, ...row }) => ({
      ...row,
      reason: maybe(reason, text => JSON.parse(text) as string),
      tasks: (JSON.parse(tasks) as JobWebhook["tasks"]).toSorted(([a, i], [b, n]) => a - b || i - n),
    }))
  }

  dueCancels(query: Argument<"dueCancels">): DueCancel[] {
    const rows = this.connection.all<StoredSlot<DueCancel>>(
      `select o.provider, o.external_id as externalId, o.job_id as jobId, o.node, o.item, o.attempt,
         o.cancel_tries as tries, coalesce(j.owner, '') as owner
       from operations as o left join jobs as j on j.id = o.job_id
       where o.partition in (select value from json_each(@partitions)) and o.cancel_at <= @at
         and o.provider in (select value from json_each(@providers))
       order by o.cancel_at, o.rowid
       limit @limit`,
      query,
    )
    return rows.map(slotRow)
  }

  settleCancel(cancel: Argument<"settleCancel">): void {
    this.connection.run(
      `update operations
       set cancel_at = @again, cancel_tries = cancel_tries + 1, slot_until = iif(@again is null, null, slot_until)
       where ${IS_OPERATION}`,
      keyed(cancel),
    )
  }

  settleSubmission(outcome: Argument<"settleSubmission">) {
    const { externalId, at } = outcome
    return this.connection.transaction(() => {
      const submission = this.connection.get<Submission>(
        `select o.rowid as id, o.provider, j.owner
         from operations as o join jobs as j on j.id = o.job_id
         where o.job_id = @job_id and o.node = @node and o.item = @item and o.unseen = 1 and o.attempt = @attempt`,
        keyed(outcome),
      )
      if (submission === undefined) return null
      const { id, provider, owner } = submission
      const isToCancel =
        externalId !== null &&
        this.claimOperation({ provider, externalId, owner, at, abandonedBefore: 0 }) &&
        !this.exists(`select 1 from operations where ${IS_OPERATION}`, { ...keyed(outcome), provider })
      const toCancel =
        "update operations set external_id = ?1, unseen = 0, ended_at = ?2, cancel_at = ?2 where rowid = ?3"
      if (isToCancel) this.connection.run(toCancel, externalId, at, id)
      else this.connection.run("delete from operations where rowid = ?", id)
      return { provider, isToCancel }
    })
  }

  unseenSubmissions(query: Argument<"unseenSubmissions">): UnseenSubmission[] {
    const which =
      "jobId" in query
        ? "o.job_id = @job_id"
        : "o.partition in (select value from json_each(@partitions)) and o.slot_until > @at"
    const rows = this.connection.all<StoredSlot<UnseenSubmission>>(
      `select o.provider, o.job_id as jobId, o.node, o.item, o.attempt, o.operation, o.submitted_at as since,
         coalesce(o.slot_until, 0) as slotUntil, coalesce(j.owner, '') as owner
       from operations as o left join jobs as j on j.id = o.job_id
       where o.unseen = 1 and ${which}
       order by o.submitted_at, o.rowid`,
      query,
    )
    return rows.map(slotRow)
  }

  noteError(error: Argument<"noteError">): void {
    const values = { ...error, code: shown(error.code), message: shown(error.message), kept: ERRORS_KEPT }
    this.connection.transaction(() => {
      this.connection.run(
        "insert into provider_errors (provider, at, what, code, message) values (@provider, @at, @what, @code, @message)",
        values,
      )
      this.connection.run(
        `delete from provider_errors
         where provider = @provider
           and id <= (select id from provider_errors where provider = @provider order by id desc limit 1 offset @kept)`,
        values,
      )
    })
  }

  overview(query: Argument<"overview">): ProviderOverview {
    const { provider } = query
    const counts = this.connection.get<Pick<ProviderOverview, "waiting" | "oldestAskedAt" | "operations">>(
      `select count(*) as waiting, min(asked_at) as oldestAskedAt,
         (select count(*) from operations where provider = ?1 and ended_at is null) as operations
       from slots where provider = ?1 and held_until is null`,
      provider,
    )!
    const held = this.connection.all<StoredHolder>(
      `select job_id as jobId, node, item, owner, granted_at as since, held_until as until, 0 as unseen
       from slots where provider = @provider and held_until > @at order by id`,
      query,
    )
    // The slots that operations of ended jobs hold at the provider.
    const left = this.connection.all<StoredHolder>(
      `select o.job_id as jobId, o.node, o.item, coalesce(j.owner, '') as owner, o.submitted_at as since,
         o.slot_until as until, o.unseen
       from operations as o left join jobs as j on j.id = o.job_id
       where o.provider = @provider and o.slot_until > @at
       order by o.submitted_at, o.rowid`,
      query,
    )
    const pace = this.#pace(provider).factor
    return providerOverview({ ...counts, held: [...held, ...left], pace, errors: this.#errors(provider) })
  }

  #errors(provider: string): ProviderErrorRow[] {
    const rows = this.connection.all<ProviderErrorRow>(
      "select at, what, code, message from provider_errors where provider = ? order by id desc",
      provider,
    )
    return rows.map(({ at, what, code, message }) => ({
      ...{ at, what, code: JSON.parse(code) as string, message: JSON.parse(message) as string },
    }))
  }
}

interface ParkedEvent extends OperationName {
  readonly id: number
  readonly news: string
}

interface Submission {
  readonly id: number
  readonly provider: string
  readonly owner: string
}

function slotKey({ jobId, node, item }: SlotKey): SlotKey {
  return item === undefined ? { jobId, node } : { jobId, node, item }
}

function maybe<T, R>(value: T | null, map: (value: T) => R): R | null {
  return value === null ? null : map(value)
}

/** A text for people, with any character. */
function shown(text: string): string {
  return JSON.stringify(text)
}
