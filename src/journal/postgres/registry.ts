import {
  type AliasRow,
  formatTargets,
  parseTargets,
  type Registry,
  type TokenFilter,
  type TokenRow,
} from "../port/registry.ts"
import type { Database, Row } from "./database.ts"
import { arrayLiteral } from "./encode.ts"
import * as rows from "./rows.ts"

/** Above every version. */
const NO_VERSION = 2 ** 31 - 1

/** Names, aliases and tokens on PostgreSQL. */
export class SqlRegistry implements Registry {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async listWorkflows({ owner, after = "", limit }: Parameters<Registry["listWorkflows"]>[0]) {
    const found = await this.#database.query("listWorkflows", [owner, after, String(limit)])
    return found.map(row => ({
      name: rows.text(row, 0),
      version: rows.number(row, 1),
      hash: rows.text(row, 2),
      createdAt: rows.number(row, 3),
      pushedBy: rows.maybeText(row, 4),
    }))
  }

  async listVersions(query: Parameters<Registry["listVersions"]>[0]) {
    const { owner, name, before = NO_VERSION, limit } = query
    const found = await this.#database.query("listVersions", [owner, name, String(before), String(limit)])
    return found.map(row => ({
      version: rows.number(row, 0),
      hash: rows.text(row, 1),
      createdAt: rows.number(row, 2),
      pushedBy: rows.maybeText(row, 3),
    }))
  }

  async readLatest({ owner, name }: Parameters<Registry["readLatest"]>[0]) {
    const [row] = await this.#database.query("readLatest", [owner, name])
    return row ? rows.number(row, 0) : null
  }

  async hasVersion({ owner, name, version }: Parameters<Registry["hasVersion"]>[0]) {
    if (version >= NO_VERSION) return false
    return (await this.#database.query("readVersion", [owner, name, String(version)])).length > 0
  }

  async deleteWorkflow({ owner, name, at, by }: Parameters<Registry["deleteWorkflow"]>[0]) {
    return this.#database.transaction(async session => {
      const versions = await session.query("deleteWorkflow", [owner, name, String(at)])
      if (versions.length > 0) await session.query("deleteAliases", [owner, name, String(at), by])
      return versions.length > 0
    })
  }

  async readAlias({ owner, name, alias }: Parameters<Registry["readAlias"]>[0]) {
    const [row] = await this.#database.query("readAlias", [owner, name, alias])
    return row ? aliasRow(row) : null
  }

  async listAliases({ owner, name }: Parameters<Registry["listAliases"]>[0]) {
    return (await this.#database.query("listAliases", [owner, name])).map(aliasRow)
  }

  async putAlias(move: Parameters<Registry["putAlias"]>[0]) {
    const { owner, name, alias, targets, at, by } = move
    const versions = arrayLiteral(targets.map(({ version }) => version))
    const parameters = [owner, name, alias, formatTargets(targets), versions, String(at), by]
    for (;;) {
      const found = await this.#database.query("putAlias", parameters)
      const missing = found.filter(row => row[0] === "missing").map(row => rows.number(row, 1))
      if (found.length > 0) return { moved: found[0]?.[0] === "moved", missing }
    }
  }

  async deleteAlias({ owner, name, alias, at, by }: Parameters<Registry["deleteAlias"]>[0]) {
    return (await this.#database.query("deleteAlias", [owner, name, alias, String(at), by])).length > 0
  }

  async listAliasMoves({ owner, name, alias, limit }: Parameters<Registry["listAliasMoves"]>[0]) {
    const found = await this.#database.query("listAliasMoves", [owner, name, alias, String(limit)])
    const targets = (text: string | null | undefined) => (text == null ? null : parseTargets(text))
    return found.map(row => ({
      at: rows.number(row, 0),
      by: rows.text(row, 1),
      from: targets(row[2]),
      to: targets(row[3]),
    }))
  }

  async putToken(token: Parameters<Registry["putToken"]>[0]) {
    const { id, hash, owner, scopes, lastFour, createdAt } = token
    const limits = [token.rateLimit, token.maxUnfinishedJobs, token.maxBodyBytes]
    await this.#database.query("putToken", [
      id,
      hash,
      owner,
      scopes.join(" "),
      lastFour,
      String(createdAt),
      ...limits.map(limit => (limit === null ? null : String(limit))),
    ])
  }

  async readToken(hash: string) {
    const [row] = await this.#database.query("readToken", [hash])
    return row ? tokenRow(row) : null
  }

  async listTokens({ owner, after, limit }: TokenFilter = {}) {
    const page = [owner ?? null, after ?? null, limit === undefined ? null : String(limit)]
    return (await this.#database.query("listTokens", page)).map(tokenRow)
  }

  async revokeToken({ id, at }: Parameters<Registry["revokeToken"]>[0]) {
    return (await this.#database.query("revokeToken", [id, String(at)])).length > 0
  }
}

function aliasRow(row: Row): AliasRow {
  return {
    alias: rows.text(row, 0),
    targets: parseTargets(rows.text(row, 1)),
    movedAt: rows.number(row, 2),
    movedBy: rows.text(row, 3),
  }
}

function tokenRow(row: Row): TokenRow {
  return {
    id: rows.text(row, 0),
    hash: rows.text(row, 1),
    owner: rows.text(row, 2),
    scopes: rows.text(row, 3).split(" "),
    lastFour: rows.text(row, 4),
    createdAt: rows.number(row, 5),
    revokedAt: rows.maybeNumber(row, 6),
    rateLimit: rows.maybeNumber(row, 7),
    maxUnfinishedJobs: rows.maybeNumber(row, 8),
    maxBodyBytes: rows.maybeNumber(row, 9),
  }
}
