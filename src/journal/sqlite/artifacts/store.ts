/** Artifacts on one SQLite connection: each method is one transaction. */
import type {
  ArtifactName,
  ArtifactRemoval,
  ArtifactRow,
  ArtifactStore,
  NewArtifact,
} from "../../port/artifacts.ts"
import { list, SqliteStore, type Sync } from "../database.ts"

type Argument<Verb extends keyof ArtifactStore> = Parameters<ArtifactStore[Verb]>[0]

const COLUMNS = `a.owner, a.hash, a.key, a.bytes, a.name, a.type, a.created_at as createdAt, a.last_put_at as lastPutAt,
  a.marked_at as markedAt, a.removed_at as removedAt`

/**
 * A row that is marked or removed gets the new key: its content is about to be removed, or was. A put that says no name or no type leaves
 * those that are known.
 */
const PUT = `
insert into artifacts as a (owner, hash, key, bytes, name, type, created_at, last_put_at, claimed_at)
values (@owner, @hash, @key, @bytes, @name, @type, @at, @at, 0)
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

export class SqliteArtifacts extends SqliteStore implements Sync<ArtifactStore> {
  put(artifact: NewArtifact): ArtifactRow {
    return this.connection.transaction(() => {
      this.connection.run(PUT, artifact)
      return this.read(artifact)!
    })
  }

  claim({ owner, hashes, at, staleBefore = at }: Argument<"claim">): string[] {
    const isClaimed = (hash: string) => this.exists(IS_CLAIMED, owner, hash, staleBefore)
    if (hashes.every(isClaimed)) return [...hashes]
    return this.connection.transaction(() =>
      hashes.filter(hash => this.connection.run(CLAIM, owner, hash, at) > 0),
    )
  }

  read({ owner, hash }: ArtifactName): ArtifactRow | null {
    const sql = `select ${COLUMNS} from artifacts as a where a.owner = ? and a.hash = ?`
    return this.connection.get<ArtifactRow>(sql, owner, hash) ?? null
  }

  list({ after = "", ...query }: Argument<"list">): ArtifactRow[] {
    const from =
      query.jobId === undefined
        ? "artifacts as a where a.owner = @owner"
        : `held as h join artifacts as a on a.owner = @owner and a.hash = substr(h.held, 1, 71)
           where h.by = @job_id and h.held = substr(h.held, 1, 71) || ' ' || @owner`
    const sql = `select ${COLUMNS} from ${from} and a.hash > @after order by a.hash limit @limit`
    return this.connection.all(sql, { ...query, after })
  }

  usedBytes(owner: string): number {
    const sql = "select coalesce(sum(bytes), 0) as bytes from artifacts where owner = ? and key is not null"
    return this.connection.get<{ bytes: number }>(sql, owner)!.bytes
  }

  remove(removal: Argument<"remove">): ArtifactRemoval {
    return this.connection.transaction(() => {
      const found = this.connection.get<{ key: string | null; isFree: number; isHeld: number }>(
        `select a.key, a.claimed_at <= @claimed_before as isFree, ${IS_HELD} as isHeld
         from artifacts as a where a.owner = @owner and a.hash = @hash`,
        removal,
      )
      if (found === undefined) return { outcome: "missing", key: null }
      const { key, isFree, isHeld } = found
      if (!removal.force && (isHeld || !isFree)) return { outcome: "referenced", key: null }
      const change = isHeld
        ? "update artifacts set removed_at = coalesce(removed_at, @at), key = null, marked_at = null"
        : "delete from artifacts"
      this.connection.run(`${change} where owner = @owner and hash = @hash`, removal)
      return { outcome: "removed", key }
    })
  }

  mark(marking: Argument<"mark">) {
    const { at, limit, dryRun = false } = marking
    return this.connection.transaction(() => {
      const page = this.connection.all<ArtifactRow & { readonly isFree: number }>(
        `select ${COLUMNS},
           a.marked_at is null and a.last_put_at < @before and a.claimed_at < @claimed_before and not ${IS_HELD} as isFree
         from artifacts as a where (a.owner, a.hash) > (@owner, @hash) order by a.owner, a.hash limit @limit`,
        { owner: "", hash: "", ...marking.after, ...marking },
      )
      const marked = page
        .filter(({ isFree }) => isFree)
        .map(({ isFree: _, ...row }): ArtifactRow => ({ ...row, markedAt: at }))
      const sql = "update artifacts set marked_at = ? where owner = ? and hash = ?"
      if (!dryRun) for (const { owner, hash } of marked) this.connection.run(sql, at, owner, hash)
      const last = page.length < limit ? undefined : page.at(-1)
      return { marked, next: last === undefined ? null : { owner: last.owner, hash: last.hash } }
    })
  }

  marked({ before, limit }: Argument<"marked">): ArtifactRow[] {
    const sql = `select ${COLUMNS} from artifacts as a where a.marked_at < ? order by a.marked_at limit ?`
    return this.connection.all(sql, before, limit)
  }

  forget({ owner, hash, key }: Argument<"forget">): void {
    const sql = "delete from artifacts where owner = ? and hash = ? and key is ? and marked_at is not null"
    this.connection.run(sql, owner, hash, key)
  }

  knownKeys(keys: readonly string[]): string[] {
    const sql = "select key from artifacts where key in (select value from json_each(?))"
    return this.connection.all<{ key: string }>(sql, list(keys)).map(({ key }) => key)
  }
}
