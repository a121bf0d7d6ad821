/** Artifacts on one SQLite connection: each method is one transaction. */
import type {
  ArtifactName,
  ArtifactRemoval,
  ArtifactRow,
  ArtifactStore,
  NewArtifact,
} from "../../port/artifacts.ts"
import { type Connection, freeText, list, type Sync } from "../database.ts"

const COLUMNS = `a.owner, a.hash, a.key, a.bytes, a.name, a.type, a.created_at as createdAt, a.last_put_at as lastPutAt,
  a.marked_at as markedAt, a.removed_at as removedAt`

/**
 * A row that is marked or removed gets the new key: its content is about to be removed, or was. A put that says no name or no type leaves
 * those that are known.
 */
const PUT = `
insert into artifacts as a (owner, hash, key, bytes, name, type, created_at, last_put_at, claimed_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, 0)
on conflict (owner, hash) do update
set
  key = case when a.marked_at is null and a.key is not null then a.key else excluded.key end,
  name = case when excluded.name = 'artifact' and a.key is not null then a.name else excluded.name end,
  type = case when excluded.type = 'application/octet-stream' and a.key is not null then a.type else excluded.type end,
  last_put_at = max(a.last_put_at, excluded.last_put_at),
  marked_at = null,
  removed_at = null`

const CLAIM = `
update artifacts set claimed_at = max(claimed_at, ?3)
where owner = ?1 and hash = ?2 and marked_at is null and key is not null`
const IS_CLAIMED = `
select 1 from artifacts
where owner = ? and hash = ? and marked_at is null and key is not null and claimed_at >= ?`

const IS_HELD = "exists (select 1 from held as h where h.held = a.hash || ' ' || a.owner)"

export class SqliteArtifacts implements Sync<ArtifactStore> {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  put({ owner, hash, key, bytes, name, type, at }: NewArtifact): ArtifactRow {
    return this.#connection.transaction(() => {
      const texts = [freeText(owner), hash, freeText(key), bytes, freeText(name), freeText(type)] as const
      this.#connection.run(PUT, ...texts, at)
      return this.read({ owner, hash })!
    })
  }

  claim({ owner, hashes, at, staleBefore = at }: Parameters<ArtifactStore["claim"]>[0]): string[] {
    const isClaimed = (hash: string) =>
      this.#connection.get(IS_CLAIMED, owner, hash, staleBefore) !== undefined
    if (hashes.every(isClaimed)) return [...hashes]
    return this.#connection.transaction(() =>
      hashes.filter(hash => this.#connection.run(CLAIM, owner, hash, at) > 0),
    )
  }

  read({ owner, hash }: ArtifactName): ArtifactRow | null {
    const sql = `select ${COLUMNS} from artifacts as a where a.owner = ? and a.hash = ?`
    return this.#connection.get<ArtifactRow>(sql, owner, hash) ?? null
  }

  list({ owner, jobId, after = "", limit }: Parameters<ArtifactStore["list"]>[0]): ArtifactRow[] {
    if (jobId === undefined) {
      const sql = `select ${COLUMNS} from artifacts as a where a.owner = ? and a.hash > ? order by a.hash limit ?`
      return this.#connection.all(sql, owner, after, limit)
    }
    const sql = `select ${COLUMNS} from held as h
      join artifacts as a on a.owner = ?1 and a.hash = substr(h.held, 1, 71)
      where h.by = ?4 and h.held = substr(h.held, 1, 71) || ' ' || ?1 and a.hash > ?2
      order by a.hash limit ?3`
    return this.#connection.all(sql, owner, after, limit, jobId)
  }

  usedBytes(owner: string): number {
    const sql = "select coalesce(sum(bytes), 0) as bytes from artifacts where owner = ? and key is not null"
    return this.#connection.get<{ bytes: number }>(sql, owner)!.bytes
  }

  remove({ owner, hash, at, claimedBefore, force }: Parameters<ArtifactStore["remove"]>[0]): ArtifactRemoval {
    return this.#connection.transaction(() => {
      const found = this.#connection.get<{ key: string | null; isFree: number; isHeld: number }>(
        `select a.key, a.claimed_at <= ?3 as isFree, ${IS_HELD} as isHeld
         from artifacts as a where a.owner = ?1 and a.hash = ?2`,
        ...[owner, hash, claimedBefore],
      )
      if (found === undefined) return { outcome: "missing", key: null }
      const { key, isFree, isHeld } = found
      if (!force && (isHeld || !isFree)) return { outcome: "referenced", key: null }
      if (isHeld)
        this.#connection.run(
          `update artifacts set removed_at = coalesce(removed_at, ?3), key = null, marked_at = null
           where owner = ?1 and hash = ?2`,
          ...[owner, hash, at],
        )
      else this.#connection.run("delete from artifacts where owner = ? and hash = ?", owner, hash)
      return { outcome: "removed", key }
    })
  }

  mark(marking: Parameters<ArtifactStore["mark"]>[0]) {
    const { before, claimedBefore, at, after, limit, dryRun = false } = marking
    const { owner = "", hash = "" } = after ?? {}
    return this.#connection.transaction(() => {
      const page = this.#connection.all<ArtifactRow & { readonly isFree: number }>(
        `select ${COLUMNS},
           a.marked_at is null and a.last_put_at < ?3 and a.claimed_at < ?5 and not ${IS_HELD} as isFree
         from artifacts as a where (a.owner, a.hash) > (?1, ?2) order by a.owner, a.hash limit ?4`,
        ...[owner, hash, before, limit, claimedBefore],
      )
      const marked = page
        .filter(({ isFree }) => isFree)
        .map(({ isFree: _, ...row }): ArtifactRow => ({ ...row, markedAt: at }))
      if (!dryRun)
        for (const row of marked)
          this.#connection.run(
            "update artifacts set marked_at = ? where owner = ? and hash = ?",
            ...[at, row.owner, row.hash],
          )
      const last = page.length < limit ? undefined : page.at(-1)
      return { marked, next: last === undefined ? null : { owner: last.owner, hash: last.hash } }
    })
  }

  marked({ before, limit }: Parameters<ArtifactStore["marked"]>[0]): ArtifactRow[] {
    const sql = `select ${COLUMNS} from artifacts as a where a.marked_at < ? order by a.marked_at limit ?`
    return this.#connection.all(sql, before, limit)
  }

  forget({ owner, hash, key }: Parameters<ArtifactStore["forget"]>[0]): void {
    const sql = "delete from artifacts where owner = ? and hash = ? and key is ? and marked_at is not null"
    this.#connection.run(sql, owner, hash, key)
  }

  knownKeys(keys: readonly string[]): string[] {
    const sql = "select key from artifacts where key in (select value from json_each(?))"
    return this.#connection.all<{ key: string }>(sql, list(keys)).map(({ key }) => key)
  }
}
