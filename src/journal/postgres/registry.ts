import {
  formatTargets,
  type Registry,
  type TokenFilter,
  type VersionRow,
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
import type { Database, Statement, Values } from "./database.ts"

/** Above every version. */
const NO_VERSION = 2 ** 31 - 1

/** Names, aliases, tokens and sessions on PostgreSQL. */
export class SqlRegistry implements Registry {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async listWorkflows({ owner, after = "", limit }: Parameters<Registry["listWorkflows"]>[0]) {
    return this.#database.query<WorkflowSummary>("listWorkflows", [owner, after, limit])
  }

  async listVersions(query: Parameters<Registry["listVersions"]>[0]) {
    const { owner, name, before = NO_VERSION, limit } = query
    return this.#database.query<VersionRow>("listVersions", [owner, name, before, limit])
  }

  async readLatest({ owner, name }: Parameters<Registry["readLatest"]>[0]) {
    const [row] = await this.#database.query<{ version: number }>("readLatest", [owner, name])
    return row?.version ?? null
  }

  async hasVersion({ owner, name, version }: Parameters<Registry["hasVersion"]>[0]) {
    return version < NO_VERSION && this.#exists("readVersion", [owner, name, version])
  }

  async deleteWorkflow({ owner, name, at, by }: Parameters<Registry["deleteWorkflow"]>[0]) {
    return this.#database.transaction(async session => {
      const versions = await session.query("deleteWorkflow", [owner, name, at])
      if (versions.length > 0) await session.query("deleteAliases", [owner, name, at, by])
      return versions.length > 0
    })
  }

  async readAlias({ owner, name, alias }: Parameters<Registry["readAlias"]>[0]) {
    const [row] = await this.#database.query<StoredAlias>("readAlias", [owner, name, alias])
    return row ? aliasRow(row) : null
  }

  async listAliases({ owner, name }: Parameters<Registry["listAliases"]>[0]) {
    return (await this.#database.query<StoredAlias>("listAliases", [owner, name])).map(aliasRow)
  }

  async putAlias(move: Parameters<Registry["putAlias"]>[0]) {
    const { owner, name, alias, targets, at, by } = move
    const versions = targets.map(({ version }) => version)
    const values = [owner, name, alias, formatTargets(targets), versions, at, by]
    for (;;) {
      const found = await this.#database.query<{ outcome: string; version: number | null }>(
        "putAlias",
        values,
      )
      const missing = found.flatMap(({ version }) => version ?? [])
      if (found.length > 0) return { moved: found[0]!.outcome === "moved", missing }
    }
  }

  async deleteAlias({ owner, name, alias, at, by }: Parameters<Registry["deleteAlias"]>[0]) {
    return this.#exists("deleteAlias", [owner, name, alias, at, by])
  }

  async listAliasMoves({ owner, name, alias, limit }: Parameters<Registry["listAliasMoves"]>[0]) {
    const values = [owner, name, alias, limit]
    return (await this.#database.query<StoredMove>("listAliasMoves", values)).map(aliasMove)
  }

  async putToken(token: Parameters<Registry["putToken"]>[0]) {
    await this.#database.query("putToken", tokenValues(token))
  }

  async readToken(hash: string) {
    const [row] = await this.#database.query<StoredToken>("readToken", [hash])
    return row ? tokenRow(row) : null
  }

  async listTokens({ owner, after, limit }: TokenFilter = {}) {
    return (await this.#database.query<StoredToken>("listTokens", [owner, after, limit])).map(tokenRow)
  }

  async revokeToken({ id, at }: Parameters<Registry["revokeToken"]>[0]) {
    return this.#exists("revokeToken", [id, at])
  }

  async putSession({ keep, ...session }: Parameters<Registry["putSession"]>[0]) {
    await this.#database.query("putSession", [...sessionValues(session), keep])
  }

  async readSession({ hash, at }: Parameters<Registry["readSession"]>[0]) {
    const [row] = await this.#database.query<StoredSession>("readSession", [hash, at])
    return row ? sessionRow(row) : null
  }

  async deleteSession(hash: string) {
    await this.#database.query("deleteSession", [hash])
  }

  async #exists(statement: Statement, values: Values): Promise<boolean> {
    return (await this.#database.query(statement, values)).length > 0
  }
}
