import {
  type AliasKey,
  formatTargets,
  type Registry,
  type TokenFilter,
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
import { SqlStore } from "./database.ts"

type Argument<Verb extends keyof Registry> = Parameters<Registry[Verb]>[0]

/** Above every version. */
const NO_VERSION = 2 ** 31 - 1

/** Names, aliases, tokens and sessions on PostgreSQL. */
export class SqlRegistry extends SqlStore implements Registry {
  async listWorkflows({ after = "", ...query }: Argument<"listWorkflows">) {
    return this.database.query<WorkflowSummary>("listWorkflows", { ...query, after })
  }

  async listVersions({ before = NO_VERSION, ...query }: Argument<"listVersions">) {
    return this.database.query<VersionRow>("listVersions", { ...query, before })
  }

  async readLatest(key: WorkflowKey) {
    return (await this.first<{ version: number }>("readLatest", key))?.version ?? null
  }

  async hasVersion(key: Argument<"hasVersion">) {
    return key.version < NO_VERSION && this.exists("readVersion", key)
  }

  async deleteWorkflow(deletion: Argument<"deleteWorkflow">) {
    return this.database.transaction(async session => {
      const versions = await session.query("deleteWorkflow", deletion)
      if (versions.length > 0) await session.query("deleteAliases", deletion)
      return versions.length > 0
    })
  }

  async readAlias(key: AliasKey) {
    const row = await this.first<StoredAlias>("readAlias", key)
    return row ? aliasRow(row) : null
  }

  async listAliases(key: WorkflowKey) {
    return (await this.database.query<StoredAlias>("listAliases", key)).map(aliasRow)
  }

  async putAlias({ targets, ...move }: Argument<"putAlias">) {
    const versions = targets.map(({ version }) => version)
    const values = { ...move, targets: formatTargets(targets), versions }
    const found = await this.untilFound<{ outcome: string; version: number | null }>("putAlias", values)
    return { moved: found[0]!.outcome === "moved", missing: found.flatMap(({ version }) => version ?? []) }
  }

  async deleteAlias(deletion: Argument<"deleteAlias">) {
    return this.exists("deleteAlias", deletion)
  }

  async listAliasMoves(query: Argument<"listAliasMoves">) {
    return (await this.database.query<StoredMove>("listAliasMoves", query)).map(aliasMove)
  }

  async pauseWorkflow(pause: Argument<"pauseWorkflow">) {
    return this.exists("pauseWorkflow", pause)
  }

  async resumeWorkflow(resumption: Argument<"resumeWorkflow">) {
    return this.exists("resumeWorkflow", resumption)
  }

  async listPauses() {
    return this.database.query<WorkflowPause>("listPauses")
  }

  async settlePause(settled: Argument<"settlePause">) {
    await this.database.query("settlePause", settled)
  }

  async putToken(token: Argument<"putToken">) {
    await this.database.query("putToken", { ...token, scopes: token.scopes.join(" ") })
  }

  async readToken(hash: string) {
    const row = await this.first<StoredToken>("readToken", { hash })
    return row ? tokenRow(row) : null
  }

  async listTokens(filter: TokenFilter = {}) {
    return (await this.database.query<StoredToken>("listTokens", filter)).map(tokenRow)
  }

  async revokeToken(revocation: Argument<"revokeToken">) {
    return this.exists("revokeToken", revocation)
  }

  async putSession(session: Argument<"putSession">) {
    await this.database.query("putSession", { ...session, scopes: session.scopes.join(" ") })
  }

  async readSession(query: Argument<"readSession">) {
    const row = await this.first<StoredSession>("readSession", query)
    return row ? sessionRow(row) : null
  }

  async deleteSession(hash: string) {
    await this.database.query("deleteSession", { hash })
  }
}
