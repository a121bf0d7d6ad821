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
  type WorkflowPause,
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
  tokenRow,
} from "../rows.ts"
import { SqliteStore, type Sync } from "./database.ts"

type Argument<Verb extends keyof Registry> = Parameters<Registry[Verb]>[0]

const VERSION_COLUMNS = "version, hash, created_at as createdAt, pushed_by as pushedBy"

const TOKEN_COLUMNS = `
  id, hash, owner, scopes, last_four as lastFour, created_at as createdAt, revoked_at as revokedAt,
  rate_limit as rateLimit, max_unfinished_jobs as maxUnfinishedJobs, max_body_bytes as maxBodyBytes`

const ALIAS_COLUMNS = "alias, targets, moved_at as movedAt, moved_by as movedBy"

/** Names, aliases, tokens and sessions on one SQLite connection: each method is one transaction. */
export class SqliteRegistry extends SqliteStore implements Sync<Registry> {
  /** One index step per workflow, however many versions there are. */
  listWorkflows({ owner, after = "", limit }: Argument<"listWorkflows">): WorkflowSummary[] {
    const sql = `select name, ${VERSION_COLUMNS} from workflows
      where owner = ? and name > ? and deleted_at is null order by name, version desc limit 1`
    const found: WorkflowSummary[] = []
    while (found.length < limit) {
      const next = this.connection.get<WorkflowSummary>(sql, owner, found.at(-1)?.name ?? after)
      if (next === undefined) break
      found.push(next)
    }
    return found
  }

  listVersions({ before = Number.MAX_SAFE_INTEGER, ...query }: Argument<"listVersions">): VersionRow[] {
    const sql = `select ${VERSION_COLUMNS} from workflows
      where owner = @owner and name = @name and version < @before and deleted_at is null order by version desc limit @limit`
    return this.connection.all(sql, { ...query, before })
  }

  readLatest({ owner, name }: WorkflowKey): number | null {
    const sql = `select version from workflows
      where owner = ? and name = ? and deleted_at is null order by version desc limit 1`
    return this.connection.get<{ version: number }>(sql, owner, name)?.version ?? null
  }

  hasVersion(key: Argument<"hasVersion">): boolean {
    const sql =
      "select 1 from workflows where owner = @owner and name = @name and version = @version and deleted_at is null"
    return this.exists(sql, key)
  }

  deleteWorkflow(deletion: Argument<"deleteWorkflow">): boolean {
    const sql =
      "update workflows set deleted_at = @at where owner = @owner and name = @name and deleted_at is null"
    return this.connection.transaction(() => {
      if (this.connection.run(sql, deletion) === 0) return false
      for (const { alias } of this.listAliases(deletion)) this.deleteAlias({ ...deletion, alias })
      return true
    })
  }

  readAlias(key: AliasKey): AliasRow | null {
    const sql = `select ${ALIAS_COLUMNS} from aliases where owner = @owner and name = @name and alias = @alias`
    const found = this.connection.get<StoredAlias>(sql, key)
    return found ? aliasRow(found) : null
  }

  listAliases({ owner, name }: WorkflowKey): AliasRow[] {
    const sql = `select ${ALIAS_COLUMNS} from aliases where owner = ? and name = ? order by alias`
    return this.connection.all<StoredAlias>(sql, owner, name).map(aliasRow)
  }

  putAlias(move: Argument<"putAlias">): { readonly moved: boolean; readonly missing: readonly number[] } {
    const targets = formatTargets(move.targets)
    return this.connection.transaction(() => {
      const missing = move.targets
        .map(({ version }) => version)
        .filter(version => !this.hasVersion({ ...move, version }))
      const before = this.readAlias(move)
      const from = before === null ? null : formatTargets(before.targets)
      if (missing.length > 0 || from === targets) return { moved: false, missing }
      this.connection.run(
        `insert into aliases (owner, name, alias, moved_at, moved_by, targets)
         values (@owner, @name, @alias, @at, @by, @targets)
         on conflict do update set moved_at = excluded.moved_at, moved_by = excluded.moved_by, targets = excluded.targets`,
        { ...move, targets },
      )
      this.#record({ ...move, from, to: targets })
      return { moved: true, missing }
    })
  }

  deleteAlias(deletion: Argument<"deleteAlias">): boolean {
    return this.connection.transaction(() => {
      const before = this.readAlias(deletion)
      if (before === null) return this.#wasRemoved(deletion)
      const sql = "delete from aliases where owner = @owner and name = @name and alias = @alias"
      this.connection.run(sql, deletion)
      this.#record({ ...deletion, from: formatTargets(before.targets), to: null })
      return true
    })
  }

  listAliasMoves(query: Argument<"listAliasMoves">): AliasMove[] {
    const sql = `select moved_at as at, moved_by as by, moved_from as "from", moved_to as "to" from alias_moves
      where owner = @owner and name = @name and alias = @alias order by id desc limit @limit`
    return this.connection.all<StoredMove>(sql, query).map(aliasMove)
  }

  pauseWorkflow(pause: Argument<"pauseWorkflow">): boolean {
    const sql = `insert into workflow_pauses (owner, name, paused_at, paused_by, reason)
      values (@owner, @name, @at, @by, @reason)
      on conflict (owner, name) do update
      set paused_at = excluded.paused_at, paused_by = excluded.paused_by, reason = excluded.reason, resumed_at = null
      where resumed_at is not null`
    return this.connection.run(sql, pause) > 0
  }

  resumeWorkflow({ owner, name, at }: Argument<"resumeWorkflow">): boolean {
    const sql = `update workflow_pauses set resumed_at = ? where owner = ? and name = ? and resumed_at is null`
    return this.connection.run(sql, at, owner, name) > 0
  }

  listPauses(): WorkflowPause[] {
    return this.connection.all(
      `select owner, name, paused_at as pausedAt, paused_by as pausedBy, reason, resumed_at as resumedAt
       from workflow_pauses order by owner, name`,
    )
  }

  settlePause({ owner, name, resumedAt }: Argument<"settlePause">): void {
    const sql = "delete from workflow_pauses where owner = ? and name = ? and resumed_at = ?"
    this.connection.run(sql, owner, name, resumedAt)
  }

  putToken(token: Omit<TokenRow, "revokedAt">): void {
    this.connection.run(
      `insert into tokens (
         id, hash, owner, scopes, last_four, created_at, rate_limit, max_unfinished_jobs, max_body_bytes
       )
       values (
         @id, @hash, @owner, @scopes, @last_four, @created_at, @rate_limit, @max_unfinished_jobs, @max_body_bytes
       )
       on conflict do nothing`,
      { ...token, scopes: token.scopes.join(" ") },
    )
  }

  readToken(hash: string): TokenRow | null {
    const sql = `select ${TOKEN_COLUMNS} from tokens where hash = ? and revoked_at is null`
    const found = this.connection.get<StoredToken>(sql, hash)
    return found ? tokenRow(found) : null
  }

  listTokens({ owner, after = "", limit = -1 }: TokenFilter = {}): TokenRow[] {
    const ofOwner = owner === undefined ? "" : "owner = @owner and "
    const sql = `select ${TOKEN_COLUMNS} from tokens where ${ofOwner}id > @after order by id limit @limit`
    return this.connection.all<StoredToken>(sql, { owner, after, limit }).map(tokenRow)
  }

  revokeToken({ id, at }: Argument<"revokeToken">): boolean {
    const sql = "update tokens set revoked_at = coalesce(revoked_at, ?) where id = ?"
    return this.connection.run(sql, at, id) > 0
  }

  putSession(session: Argument<"putSession">): void {
    const { createdAt, subject, keep } = session
    this.connection.transaction(() => {
      this.connection.run(
        `delete from sessions where hash in (select hash from sessions where expires_at <= ? limit 1000)`,
        createdAt,
      )
      const surplus = `delete from sessions where hash in (
        select hash from sessions where subject = ? order by created_at desc, hash limit -1 offset ?
      )`
      this.connection.run(surplus, subject, keep - 1)
      this.connection.run(
        `insert into sessions (hash, token_id, subject, owner, scopes, created_at, expires_at)
         values (@hash, @token_id, @subject, @owner, @scopes, @created_at, @expires_at)
         on conflict do nothing`,
        { ...session, scopes: session.scopes.join(" ") },
      )
    })
  }

  readSession({ hash, at }: Argument<"readSession">): (SessionRow & TokenLimits) | null {
    const sql = `select s.hash, s.token_id as tokenId, s.subject, s.owner, s.scopes, s.created_at as createdAt,
        s.expires_at as expiresAt, t.rate_limit as rateLimit, t.max_unfinished_jobs as maxUnfinishedJobs,
        t.max_body_bytes as maxBodyBytes
      from sessions s left join tokens t on t.id = s.token_id
      where s.hash = ? and s.expires_at > ?
        and (s.token_id is null or (t.id is not null and t.revoked_at is null))`
    const found = this.connection.get<StoredSession>(sql, hash, at)
    return found ? sessionRow(found) : null
  }

  deleteSession(hash: string): void {
    this.connection.run("delete from sessions where hash = ?", hash)
  }

  /** The same removal was stored before: its answer was lost. */
  #wasRemoved(deletion: Argument<"deleteAlias">): boolean {
    const sql = `select 1 from alias_moves
      where owner = @owner and name = @name and alias = @alias and moved_at = @at and moved_by = @by and moved_to is null`
    return this.exists(sql, deletion)
  }

  #record(
    move: Argument<"deleteAlias"> & { readonly from: string | null; readonly to: string | null },
  ): void {
    const sql = `insert into alias_moves (owner, name, alias, moved_at, moved_by, moved_from, moved_to)
      values (@owner, @name, @alias, @at, @by, @from, @to)`
    this.connection.run(sql, move)
  }
}
