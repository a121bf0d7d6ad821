import type { Reply } from "../client/resp.ts"

/**
 * The stores whose engines use a Redis. A worker has no database and cannot know the store that it works for:
 * engines announce theirs under one key for all stores of a prefix.
 */

/** A store, as `--store` names it. */
export interface AnnouncedStore {
  readonly id: string
  /** The display name, without credentials. */
  readonly label: string
}

export type Send = (args: readonly string[]) => Promise<Reply>

/** The part of a store's id that is in the names of its keys, and that people see. */
export function shortStoreId(id: string): string {
  return id.replaceAll("-", "").slice(0, STORE_LENGTH)
}

/** Announces the store, and removes stores that have not been announced for a long time. */
export async function announceStore(send: Send, key: string, { id, label }: AnnouncedStore): Promise<void> {
  const now = await redisSeconds(send)
  await send(["HSET", key, id, JSON.stringify({ label, seen: now })])
  const gone = (await readAll(send, key)).filter(({ seen }) => now - seen > FORGET_SECONDS)
  if (gone.length > 0) await send(["HDEL", key, ...gone.map(store => store.id)])
}

/** Announces repeatedly, while the process runs, that the engine's store is live. */
export class StoreAnnouncer {
  readonly #announce: () => Promise<void>
  #at = Number.NEGATIVE_INFINITY

  constructor(announce: () => Promise<void>) {
    this.#announce = announce
  }

  /** Redis may have lost the announcement: the next call of `repeat` announces again. */
  reset(): void {
    this.#at = Number.NEGATIVE_INFINITY
  }

  /** Call this often: it announces only when the interval has passed. */
  repeat(): void {
    if (performance.now() - this.#at < ANNOUNCE_MS) return
    this.#at = performance.now()
    this.#announce().catch(() => this.reset())
  }
}

/** The stores that were announced recently. */
export async function liveStores(send: Send, key: string): Promise<AnnouncedStore[]> {
  const [now, all] = [await redisSeconds(send), await readAll(send, key)]
  return all.filter(({ seen }) => now - seen <= LIVE_SECONDS).map(({ id, label }) => ({ id, label }))
}

async function readAll(send: Send, key: string): Promise<(AnnouncedStore & { readonly seen: number })[]> {
  const row = (await send(["HGETALL", key])) as string[]
  const found: (AnnouncedStore & { readonly seen: number })[] = []
  for (let i = 0; i < row.length; i += 2) {
    const said = parseAnnouncement(row[i + 1]!)
    if (said !== null && STORE.test(row[i]!)) found.push({ id: row[i]!, ...said })
  }
  return found
}

/** null: not in the format that engines write. */
function parseAnnouncement(text: string): { readonly label: string; readonly seen: number } | null {
  try {
    const { label, seen } = JSON.parse(text) as { label: unknown; seen: unknown }
    return typeof label === "string" && typeof seen === "number" ? { label, seen } : null
  } catch {
    return null
  }
}

async function redisSeconds(send: Send): Promise<number> {
  const [seconds] = (await send(["TIME"])) as [string]
  return Number(seconds)
}

/** The interval between two announcements of an engine. */
const ANNOUNCE_MS = 5000
const LIVE_SECONDS = 30
const FORGET_SECONDS = 86_400
const STORE_LENGTH = 12
const STORE = /^[0-9a-f]{12}$/
