import { type MemoryStore, pair } from "./memory-store.ts"
import {
  type AliasKey,
  type Registry,
  type TokenFilter,
  type TokenRow,
  targetsOf,
  targetsText,
  type VersionRow,
  type WorkflowKey,
} from "./registry.ts"

/** Names, aliases and tokens in memory. Every verb reads and writes without an await in between. */
export class MemoryRegistry implements Registry {
  readonly #store: () => MemoryStore

  /** `store` refuses once the journal is closed. */
  constructor(store: () => MemoryStore) {
    this.#store = store
  }

  async listWorkflows({ owner, after = "", limit }: Parameters<Registry["listWorkflows"]>[0]) {
    const names = [...this.#store().workflows.keys()].map(key => JSON.parse(key) as [string, string])
    return names
      .filter(([of, name]) => of === owner && name > after)
      .sort(([, a], [, b]) => (a < b ? -1 : 1))
      .flatMap(([, name]) =>
        this.#versions({ owner, name })
          .slice(0, 1)
          .map(version => ({ name, ...version })),
      )
      .slice(0, limit)
  }

  async listVersions(query: Parameters<Registry["listVersions"]>[0]) {
    const { before = Number.POSITIVE_INFINITY, limit } = query
    return this.#versions(query)
      .filter(({ version }) => version < before)
      .slice(0, limit)
  }

  async readLatest(key: WorkflowKey) {
    return this.#versions(key)[0]?.version ?? null
  }

  async hasVersion(key: WorkflowKey & { readonly version: number }) {
    return this.#versions(key).some(({ version }) => version === key.version)
  }

  async deleteWorkflow({ owner, name, at, by }: Parameters<Registry["deleteWorkflow"]>[0]) {
    const live = (this.#store().workflows.get(pair(owner, name)) ?? []).filter(row => row.deletedAt === null)
    for (const row of live) row.deletedAt = at
    if (live.length === 0) return false
    for (const { alias } of await this.listAliases({ owner, name }))
      await this.deleteAlias({ owner, name, alias, at, by })
    return true
  }

  async readAlias(key: AliasKey) {
    return this.#store().aliases.get(aliasKey(key)) ?? null
  }

  async listAliases({ owner, name }: WorkflowKey) {
    const prefix = `${pair(owner, name)} `
    return [...this.#store().aliases]
      .filter(([key]) => key.startsWith(prefix))
      .map(([, row]) => row)
      .sort((a, b) => (a.alias < b.alias ? -1 : 1))
  }

  async putAlias(move: Parameters<Registry["putAlias"]>[0]) {
    const { alias, at, by } = move
    const there = new Set(this.#versions(move).map(({ version }) => version))
    const missing = move.targets.map(({ version }) => version).filter(version => !there.has(version))
    const key = aliasKey(move)
    const before = this.#store().aliases.get(key)
    const text = targetsText(move.targets)
    if (missing.length > 0 || (before && targetsText(before.targets) === text))
      return { moved: false, missing }
    const targets = targetsOf(text)
    this.#store().aliases.set(key, { alias, targets, movedAt: at, movedBy: by })
    this.#written(key).unshift({ at, by, from: before?.targets ?? null, to: targets })
    return { moved: true, missing }
  }

  async deleteAlias({ at, by, ...which }: Parameters<Registry["deleteAlias"]>[0]) {
    const key = aliasKey(which)
    const before = this.#store().aliases.get(key)
    if (before === undefined) return false
    this.#store().aliases.delete(key)
    this.#written(key).unshift({ at, by, from: before.targets, to: null })
    return true
  }

  async listAliasMoves(query: Parameters<Registry["listAliasMoves"]>[0]) {
    return this.#written(aliasKey(query)).slice(0, query.limit)
  }

  async putToken(token: Omit<TokenRow, "revokedAt">) {
    const { tokens } = this.#store()
    if (!tokens.has(token.id)) tokens.set(token.id, { ...token, revokedAt: null })
  }

  async readToken(hash: string) {
    return [...this.#store().tokens.values()].find(row => row.hash === hash && row.revokedAt === null) ?? null
  }

  async listTokens({ owner, after = "", limit }: TokenFilter = {}) {
    return [...this.#store().tokens.values()]
      .filter(row => (owner === undefined || row.owner === owner) && row.id > after)
      .sort((a, b) => (a.id < b.id ? -1 : 1))
      .slice(0, limit)
  }

  async revokeToken({ id, at }: { readonly id: string; readonly at: number }) {
    const { tokens } = this.#store()
    const token = tokens.get(id)
    if (token) tokens.set(id, { ...token, revokedAt: token.revokedAt ?? at })
    return token !== undefined
  }

  /** Newest first, without deleted ones. */
  #versions({ owner, name }: WorkflowKey): VersionRow[] {
    const versions = this.#store().workflows.get(pair(owner, name)) ?? []
    return versions
      .flatMap(({ hash, createdAt, deletedAt, pushedBy }, index) =>
        deletedAt === null ? [{ version: index + 1, hash, createdAt, pushedBy }] : [],
      )
      .reverse()
  }

  #written(key: string) {
    const { aliasMoves } = this.#store()
    const moves = aliasMoves.get(key) ?? []
    aliasMoves.set(key, moves)
    return moves
  }
}

function aliasKey({ owner, name, alias }: AliasKey): string {
  return `${pair(owner, name)} ${alias}`
}
