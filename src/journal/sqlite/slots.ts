/**
 * The slots of providers: which requests are granted, and in which order. Everything runs inside the caller's
 * transaction.
 *
 * Owners take turns: the next slot goes to the owner that holds the fewest; among equals to the one whose
 * last turn was longest ago (slot_turns); and within an owner to the first request. Waiting requests are read
 * owner by owner, each no further than there are slots to grant: a long queue costs no more than a short one.
 */
import type { Notice } from "../port/journal.ts"
import type { SlotKey, SlotRequest, SlotTerms } from "../port/providers.ts"
import { keyed, type StoredSlot, slotName, slotRow } from "../rows.ts"
import type { SqliteConnection } from "./database.ts"

const IS_SLOT = "provider = @provider and job_id = @job_id and node = @node and item = @item"

export type KeyRow = StoredSlot<SlotKey>

interface SlotRow extends KeyRow {
  readonly id: number
  readonly partition: number
  readonly owner: string
  readonly askedAt: number
}

export interface GrantedSlot extends SlotKey {
  readonly partition: number
}

/** An existing request stays unchanged, held or waiting; one whose lease has ended waits again. */
export function askForSlot(
  connection: SqliteConnection,
  { provider, at }: SlotTerms,
  request: SlotRequest,
): void {
  const known = connection.get<{ readonly heldUntil: number | null }>(
    `select held_until as heldUntil from slots where ${IS_SLOT}`,
    { ...keyed(request), provider },
  )
  if (known !== undefined && (known.heldUntil === null || known.heldUntil > at)) return
  enqueue(connection, { ...request, provider, askedAt: at })
}

/** Queues the request at the end of its owner's line, with a new id; replaces its existing row. */
function enqueue(
  connection: SqliteConnection,
  slot: SlotRequest & { readonly provider: string; readonly askedAt: number },
): void {
  connection.run(
    `insert or replace into slots (provider, job_id, node, item, partition, owner, asked_at)
     values (@provider, @job_id, @node, @item, @partition, @owner, @asked_at)`,
    keyed(slot),
  )
}

export function isHeld(connection: SqliteConnection, { provider, at }: SlotTerms, slot: SlotKey): boolean {
  const sql = `select 1 from slots where ${IS_SLOT} and held_until > @at`
  return connection.get(sql, { ...keyed(slot), provider, at }) !== undefined
}

/**
 * Grants free slots to waiting requests. Those of `askers` are returned, the others are notified by a
 * message.
 */
export function grantSlots(
  connection: SqliteConnection,
  terms: SlotTerms,
  askers: readonly SlotKey[],
): GrantedSlot[] {
  const { provider, limit, at, leaseMs } = terms
  const held = heldByOwner(connection, provider, at)
  const free = limit - [...held.values()].reduce((sum, count) => sum + count, 0)
  const next = free > 0 ? nextInLine(connection, terms, held, free) : []
  if (next.length === 0) return []
  endLeases(connection, provider, at)
  const turn = lastTurn(connection, provider) + 1
  const asked = new Set(askers.map(slotName))
  for (const slot of next) {
    connection.run("update slots set granted_at = ?, held_until = ? where id = ?", at, at + leaseMs, slot.id)
    const sql = `insert into slot_turns (provider, owner, turn) values (?, ?, ?)
     on conflict (provider, owner) do update set turn = excluded.turn`
    connection.run(sql, provider, slot.owner, turn)
    if (!asked.has(slotName(slot)))
      sendNotice(connection, slot, {
        sentAt: at,
        cause: `slot/${slot.id}/${at}`,
        kind: "grant_slot",
        news: null,
      })
  }
  return next.map(({ jobId, node, item, partition }) => slotRow({ jobId, node, item, partition }))
}

/** A message to the owner of a job's partition. There is only one with the same cause. */
export function sendNotice(
  connection: SqliteConnection,
  to: KeyRow & { readonly partition: number },
  notice: {
    readonly sentAt: number
    readonly cause: string
    readonly kind: Notice["kind"]
    readonly news: string | null
  },
): void {
  connection.run(
    `insert into inbox (partition, job_id, sent_at, cause, kind, node, item, news)
     values (@partition, @job_id, @sent_at, @cause, @kind, @node, @item, @news)
     on conflict (cause) do nothing`,
    { ...to, ...notice },
  )
}

interface OwnerCount {
  readonly owner: string
  readonly count: number
}

/**
 * Includes the slots of operations of ended jobs, while they are being cancelled or their outcome is unknown.
 */
function heldByOwner(connection: SqliteConnection, provider: string, at: number): Map<string, number> {
  const sql = `select owner, count(*) as count
   from (
     select owner from slots where provider = ? and held_until > ?
     union all
     select coalesce(j.owner, '')
     from operations as o left join jobs as j on j.id = o.job_id
     where o.provider = ? and o.slot_until > ?
   )
   group by owner`
  const rows = connection.all<OwnerCount>(sql, provider, at, provider, at)
  return new Map(rows.map(({ owner, count }) => [owner, count]))
}

/** The owners with waiting requests, each found by one index step. */
const WAITING_OWNERS = `
  with recursive waiting (owner) as (
    select min(owner) from slots where provider = ?1 and held_until is null
    union all
    select (select min(s.owner) from slots as s where s.provider = ?1 and s.held_until is null and s.owner > w.owner)
    from waiting as w
    where w.owner is not null
  )
  select w.owner, coalesce(t.turn, 0) as lastTurn
  from waiting as w
  left join slot_turns as t on t.provider = ?1 and t.owner = w.owner
  where w.owner is not null`

interface WaitingOwner {
  readonly owner: string
  readonly lastTurn: number
}

/**
 * At most `free` requests in the order of the grants. `turn`: how many slots the owner holds once this one is
 * granted.
 */
function nextInLine(
  connection: SqliteConnection,
  { provider, limitPerOwner }: SlotTerms,
  held: ReadonlyMap<string, number>,
  free: number,
): SlotRow[] {
  const line = connection.all<WaitingOwner>(WAITING_OWNERS, provider).flatMap(({ owner, lastTurn }) => {
    const before = held.get(owner) ?? 0
    const most = Math.min(free, (limitPerOwner ?? Number.POSITIVE_INFINITY) - before)
    if (most <= 0) return []
    const sql = `select id, job_id as jobId, node, item, partition, owner, asked_at as askedAt from slots
      where provider = ? and owner = ? and held_until is null order by id limit ?`
    const rows = connection.all<SlotRow>(sql, provider, owner, most)
    return rows.map((slot, index) => ({ slot, turn: before + index + 1, lastTurn }))
  })
  return line
    .sort((a, b) => a.turn - b.turn || a.lastTurn - b.lastTurn || a.slot.id - b.slot.id)
    .slice(0, free)
    .map(({ slot }) => slot)
}

/**
 * A lease that has ended is removed if its operation continues; otherwise its node may still need it, and the
 * request waits again.
 */
function endLeases(connection: SqliteConnection, provider: string, at: number): void {
  const sql = `select s.id, s.job_id as jobId, s.node, s.item, s.partition, s.owner, s.asked_at as askedAt,
     ${HAS_OPERATION} as isRunning
   from slots as s
   where s.provider = ? and s.held_until <= ?
   order by s.held_until, s.id`
  const ended = connection.all<SlotRow & { readonly isRunning: number }>(sql, provider, at)
  for (const slot of ended) {
    if (slot.isRunning) connection.run("delete from slots where id = ?", slot.id)
    else enqueue(connection, { ...slot, provider })
  }
}

/** The node or item of slot `s` has a running operation. */
export const HAS_OPERATION = `exists (
  select 1 from operations as o
  where o.job_id = s.job_id and o.node = s.node and o.item = s.item and o.ended_at is null and o.unseen = 0
)`

function lastTurn(connection: SqliteConnection, provider: string): number {
  const row = connection.get<{ readonly turn: number }>(
    "select coalesce(max(turn), 0) as turn from slot_turns where provider = ?",
    provider,
  )
  return row!.turn
}

/** From 1, in the order of the grants; null: it does not wait. */
export function slotPosition(
  connection: SqliteConnection,
  slot: SlotKey & { readonly provider: string },
): number | null {
  const { provider } = slot
  const mine = connection.get<{ readonly id: number; readonly owner: string }>(
    `select id, owner from slots where ${IS_SLOT} and held_until is null`,
    keyed(slot),
  )
  if (mine === undefined) return null
  const counts = connection.all<OwnerCount>(
    "select owner, count(*) as count from slots where provider = ? and held_until is not null group by owner",
    provider,
  )
  const held = new Map(counts.map(({ owner, count }) => [owner, count]))
  const sql = `select count(*) as place from slots
   where provider = ? and owner = ? and held_until is null and id <= ?`
  const { place } = connection.get<{ readonly place: number }>(sql, provider, mine.owner, mine.id)!
  const turn = (held.get(mine.owner) ?? 0) + place
  const owners = connection.all<WaitingOwner>(WAITING_OWNERS, provider)
  const own = owners.find(({ owner }) => owner === mine.owner)!.lastTurn
  let ahead = 0
  for (const { owner, lastTurn } of owners) {
    const most = turn - (held.get(owner) ?? 0)
    if (most <= 0) continue
    const { count, last } = connection.get<{ readonly count: number; readonly last: number | null }>(
      `select count(*) as count, max(id) as last
       from (select id from slots where provider = ? and owner = ? and held_until is null order by id limit ?)`,
      ...[provider, owner, most],
    )!
    // The last request within this number has the same turn as this one: the owner whose last turn was
    // longest ago comes first, then the first request.
    const isBehind = count === most && (lastTurn > own || (lastTurn === own && last! > mine.id))
    ahead += isBehind ? count - 1 : count
  }
  return ahead
}
