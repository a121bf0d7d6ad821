/** Names, aliases, tokens and sessions on one SQLite connection: each method is one transaction. */
import {
  type AliasKey,
  type AliasMove,
  type AliasRow,
  formatTargets,
  type Registry,
  type SessionRow,
  type TokenFilter,
  type TokenLimits,
  type TokenRow,
  type VersionRow,
  type WorkflowKey,
  type WorkflowSummary,
} from "../port/registry.ts"
import {
  aliasMove,
  aliasRow,
  type StoredAlias,
  type StoredMove,
  type StoredSession,
  type StoredToken,
  sessionRow,
  sessionValues,
  tokenRow,
  tokenValues,
} from "../rows.ts"
import { type Connection, freeText, type Sync } from "./database.ts"

const VERSION_COLUMNS = "version, hash, created_at as createdAt, pushed_by as pushedBy"

const TOKEN_COLUMNS = `
  id, hash, owner, scopes, last_four as lastFour, created_at as createdAt, revoked_at as revokedAt,
  rate_limit as rateLimit, max_unfinished_jobs as maxUnfinishedJobs, max_body_bytes as maxBodyBytes`

const ALIAS_COLUMNS = "alias, targets, moved_at as movedAt, moved_by as movedBy"

export class SqliteRegistry implements Sync<Registry> {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** One index step per workflow, however many versions there are. */
  listWorkflows({ owner, after = "", limit }: Parameters<Registry["listWorkflows"]>[0]): WorkflowSummary[] {
    const sql = `select name, ${VERSION_COLUMNS} from workflows
      where owner = ? and name > ? and deleted_at is null order by name, version desc limit 1`
    const found: WorkflowSummary[] = []
    while (found.length < limit) {
      const next = this.#connection.get<WorkflowSummary>(sql, owner, found.at(-1)?.name ?? after)
      if (next === undefined) break
      found.push(next)
    }
    return found
  }

  listVersions(query: Parameters<Registry["listVersions"]>[0]): VersionRow[] {
    const { owner, name, before = Number.MAX_SAFE_INTEGER, limit } = query
    const sql = `select ${VERSION_COLUMNS} from workflows
      where owner = ? and name = ? and version < ? and deleted_at is null order by version desc limit ?`
    return this.#connection.all(sql, owner, name, before, limit)
  }

  readLatest({ owner, name }: WorkflowKey): number | null {
    const sql = `select version from workflows
      where owner = ? and name = ? and deleted_at is null order by version desc limit 1`
    return this.#connection.get<{ version: number }>(sql, owner, name)?.version ?? null
  }

  hasVersion({ owner, name, version }: WorkflowKey & { readonly version: number }): boolean {
    const sql = "select 1 from workflows where owner = ? and name = ? and version = ? and deleted_at is null"
    return this.#connection.get(sql, owner, name, version) !== undefined
  }

  deleteWorkflow({ owner, name, at, by }: Parameters<Registry["deleteWorkflow"]>[0]): boolean {
    const sql = "update workflows set deleted_at = ? where owner = ? and name = ? and deleted_at is null"
    return this.#connection.transaction(() => {
      if (this.#connection.run(sql, at, owner, name) === 0) return false
      for (const { alias } of this.listAliases({ owner, name }))
        this.deleteAlias({ owner, name, alias, at, by })
      return true
    })
  }

  readAlias({ owner, name, alias }: AliasKey): AliasRow | null {
    const sql = `select ${ALIAS_COLUMNS} from aliases where owner = ? and name = ? and alias = ?`
    const found = this.#connection.get<StoredAlias>(sql, owner, name, alias)
    return found ? aliasRow(found) : null
  }

  listAliases({ owner, name }: WorkflowKey): AliasRow[] {
    const sql = `select ${ALIAS_COLUMNS} from aliases where owner = ? and name = ? order by alias`
    return this.#connection.all<StoredAlias>(sql, owner, name).map(aliasRow)
  }

  putAlias(move: Parameters<Registry["putAlias"]>[0]): {
    readonly moved: boolean
    readonly missing: readonly number[]
  } {
    const { owner, name, alias, at, by } = move
    const targets = formatTargets(move.targets)
    return this.#connection.transaction(() => {
      const missing = move.targets
        .map(({ version }) => version)
        .filter(version => !this.hasVersion({ owner, name, version }))
      const before = this.readAlias(move)
      const from = before === null ? null : formatTargets(before.targets)
      if (missing.length > 0 || from === targets) return { moved: false, missing }
      this.#connection.run(
        `insert into aliases (owner, name, alias, moved_at, moved_by, targets) values (?, ?, ?, ?, ?, ?)
         on conflict do update set moved_at = excluded.moved_at, moved_by = excluded.moved_by, targets = excluded.targets`,
        freeText(owner),
        freeText(name),
        freeText(alias),
        at,
        freeText(by),
        targets,
      )
      this.#record({ ...move, from, to: targets })
      return { moved: true, missing }
    })
  }

  deleteAlias({ owner, name, alias, at, by }: Parameters<Registry["deleteAlias"]>[0]): boolean {
    return this.#connection.transaction(() => {
      const before = this.readAlias({ owner, name, alias })
      if (before === null) return this.#wasRemoved({ owner, name, alias, at, by })
      this.#connection.run(
        "delete from aliases where owner = ? and name = ? and alias = ?",
        owner,
        name,
        alias,
      )
      this.#record({ owner, name, alias, at, by, from: formatTargets(before.targets), to: null })
      return true
    })
  }

  listAliasMoves({ owner, name, alias, limit }: Parameters<Registry["listAliasMoves"]>[0]): AliasMove[] {
    const sql = `select moved_at as at, moved_by as by, moved_from as "from", moved_to as "to" from alias_moves
      where owner = ? and name = ? and alias = ? order by id desc limit ?`
    return this.#connection.all<StoredMove>(sql, owner, name, alias, limit).map(aliasMove)
  }

  putToken(token: Omit<TokenRow, "revokedAt">): void {
    this.#connection.run(
      `insert into tokens (
         id, hash, owner, scopes, last_four, created_at, rate_limit, max_unfinished_jobs, max_body_bytes
       )
       values (?, ?, ?, ?, ?, ?, ?, ?, ?)
       on conflict do nothing`,
      ...tokenValues(token).map(value => (typeof value === "string" ? freeText(value) : value)),
    )
  }

  readToken(hash: string): TokenRow | null {
    const sql = `select ${TOKEN_COLUMNS} from tokens where hash = ? and revoked_at is null`
    const found = this.#connection.get<StoredToken>(sql, hash)
    return found ? tokenRow(found) : null
  }

  listTokens({ owner, after = "", limit = -1 }: TokenFilter = {}): TokenRow[] {
    const sql = `select ${TOKEN_COLUMNS} from tokens where ${owner === undefined ? "" : "owner = ? and "}id > ?
      order by id limit ?`
    const owners = owner === undefined ? [] : [owner]
    return this.#connection.all<StoredToken>(sql, ...owners, after, limit).map(tokenRow)
  }

  revokeToken({ id, at }: { readonly id: string; readonly at: number }): boolean {
    return (
      this.#connection.run("update tokens set revoked_at = coalesce(revoked_at, ?) where id = ?", at, id) > 0
    )
  }

  putSession({ keep, ...session }: Parameters<Registry["putSession"]>[0]): void {
    const { createdAt, subject } = session
    this.#connection.transaction(() => {
      this.#connection.run(
        `delete from sessions where hash in (select hash from sessions where expires_at <= ? limit 1000)`,
        createdAt,
      )
      this.#connection.run(
        `delete from sessions where hash in (
           select hash from sessions where subject = ? order by created_at desc, hash limit -1 offset ?
         )`,
        subject,
        keep - 1,
      )
      this.#connection.run(
        `insert into sessions (hash, token_id, subject, owner, scopes, created_at, expires_at)
         values (?, ?, ?, ?, ?, ?, ?)
         on conflict do nothing`,
        ...sessionValues(session).map(value => (typeof value === "string" ? freeText(value) : value)),
      )
    })
  }

  readSession({ hash, at }: Parameters<Registry["readSession"]>[0]): (SessionRow & TokenLimits) | null {
    const sql = `select s.hash, s.token_id as tokenId, s.subject, s.owner, s.scopes, s.created_at as createdAt,
        s.expires_at as expiresAt, t.rate_limit as rateLimit, t.max_unfinished_jobs as maxUnfinishedJobs,
        t.max_body_bytes as maxBodyBytes
      from sessions s left join tokens t on t.id = s.token_id
      where s.hash = ? and s.expires_at > ?
        and (s.token_id is null or (t.id is not null and t.revoked_at is null))`
    const found = this.#connection.get<StoredSession>(sql, hash, at)
    return found ? sessionRow(found) : null
  }

  deleteSession(hash: string): void {
    this.#connection.run("delete from sessions where hash = ?", hash)
  }

  /** The same removal was stored before: its answer was lost. */
  #wasRemoved({
    owner,
    name,
    alias,
    at,
    by,
  }: AliasKey & { readonly at: number; readonly by: string }): boolean {
    const sql = `select 1 from alias_moves
      where owner = ? and name = ? and alias = ? and moved_at = ? and moved_by = ? and moved_to is null`
    return this.#connection.get(sql, owner, name, alias, at, by) !== undefined
  }

  #record(
    move: AliasKey & {
      readonly at: number
      readonly by: string
      readonly from: string | null
      readonly to: string | null
    },
  ): void {
    this.#connection.run(
      `insert into alias_moves (owner, name, alias, moved_at, moved_by, moved_from, moved_to)
       values (?, ?, ?, ?, ?, ?, ?)`,
      move.owner,
      move.name,
      move.alias,
      move.at,
      freeText(move.by),
      move.from,
      move.to,
    )
  }
}
