/**
 * The part of the storage contract for named objects: workflows and their versions, aliases, API tokens, sessions. No
 * fence: nothing here belongs to a running job.
 *
 * 1. Every method is one commit and safe to send twice.
 * 2. A deleted workflow is invisible here, but its versions stay readable for the jobs that run on them, and
 *    the next push continues the version numbers.
 * 3. An alias points only at existing versions; every move is recorded with it.
 */
export interface TokenFilter {
  readonly owner?: string | undefined
  /** Only those after this id. */
  readonly after?: string | undefined
  /** Default: all. */
  readonly limit?: number | undefined
}

export interface Registry {
  /** The latest version of each of an owner's workflows, by name in the store's own order. */
  listWorkflows(query: {
    readonly owner: string
    /** The last name of the previous page. */
    readonly after?: string | undefined
    readonly limit: number
  }): Promise<WorkflowSummary[]>
  /** Newest first. */
  listVersions(
    query: WorkflowKey & { readonly before?: number | undefined; readonly limit: number },
  ): Promise<VersionRow[]>
  /** The number alone: definitions are large, and every submission needs it. */
  readLatest(key: WorkflowKey): Promise<number | null>
  hasVersion(key: WorkflowKey & { readonly version: number }): Promise<boolean>
  /** False: there was nothing to delete. */
  deleteWorkflow(deletion: WorkflowKey & { readonly at: number; readonly by: string }): Promise<boolean>

  readAlias(key: AliasKey): Promise<AliasRow | null>
  /** Sorted by name. */
  listAliases(key: WorkflowKey): Promise<AliasRow[]>
  /** Returns the versions that do not exist; then nothing has changed. */
  putAlias(
    move: AliasKey & { readonly targets: readonly AliasTarget[]; readonly at: number; readonly by: string },
  ): Promise<{ readonly moved: boolean; readonly missing: readonly number[] }>
  /** False: there was none. */
  deleteAlias(deletion: AliasKey & { readonly at: number; readonly by: string }): Promise<boolean>
  /** Newest first; including removals, also that of the workflow. */
  listAliasMoves(query: AliasKey & { readonly limit: number }): Promise<AliasMove[]>

  putToken(token: Omit<TokenRow, "revokedAt">): Promise<void>
  /** null also for a revoked token. */
  readToken(hash: string): Promise<TokenRow | null>
  /** Oldest first, including revoked tokens. */
  listTokens(filter?: TokenFilter): Promise<TokenRow[]>
  /** False: there is no such token. A token that was already revoked keeps its time. */
  revokeToken(revocation: { readonly id: string; readonly at: number }): Promise<boolean>

  /** Removes sessions that have expired, and those of the same subject except the newest `keep`. */
  putSession(session: SessionRow & { readonly keep: number }): Promise<void>
  /** null also for a session that has expired at `at`, or whose token is revoked. */
  readSession(query: {
    readonly hash: string
    readonly at: number
  }): Promise<(SessionRow & TokenLimits) | null>
  deleteSession(hash: string): Promise<void>
}

export interface WorkflowKey {
  readonly owner: string
  readonly name: string
}

export interface AliasKey extends WorkflowKey {
  readonly alias: string
}

export interface VersionRow {
  readonly version: number
  readonly hash: string
  readonly createdAt: number
  readonly pushedBy: string | null
}

export interface WorkflowSummary extends VersionRow {
  readonly name: string
}

export interface AliasTarget {
  readonly version: number
  /**
   * The probability of a version is its weight divided by the sum; 0: never chosen. At least one is above 0.
   */
  readonly weight: number
}

export interface AliasRow {
  readonly alias: string
  /** Sorted by version. */
  readonly targets: readonly AliasTarget[]
  readonly movedAt: number
  readonly movedBy: string
}

export interface AliasMove {
  readonly at: number
  readonly by: string
  readonly from: readonly AliasTarget[] | null
  readonly to: readonly AliasTarget[] | null
}

/** The limits of one token. null: the server's default. */
export interface TokenLimits {
  /** Requests per second. */
  readonly rateLimit: number | null
  /** Jobs submitted with it that have not ended. */
  readonly maxUnfinishedJobs: number | null
  readonly maxBodyBytes: number | null
}

export interface TokenRow extends TokenLimits {
  readonly id: string
  readonly hash: string
  readonly owner: string
  readonly scopes: readonly string[]
  readonly lastFour: string
  readonly createdAt: number
  readonly revokedAt: number | null
}

/** The login of a person in a browser. */
export interface SessionRow {
  readonly hash: string
  /** The API token that it ends with; null: it was created with a JWT. */
  readonly tokenId: string | null
  /** The author, for histories: the token, or the subject of the JWT. */
  readonly subject: string
  readonly owner: string
  readonly scopes: readonly string[]
  readonly createdAt: number
  readonly expiresAt: number
}

/** Equal targets have equal texts: sorted by version, without further fields. */
export function formatTargets(targets: readonly AliasTarget[]): string {
  const pairs = targets.map(({ version, weight }) => [version, weight] as const)
  return JSON.stringify(pairs.sort((a, b) => a[0] - b[0]))
}

export function parseTargets(text: string): AliasTarget[] {
  return (JSON.parse(text) as [number, number][]).map(([version, weight]) => ({ version, weight }))
}
