/**
 * The part of the storage contract that knows names: workflows and their versions, aliases, API tokens. No fence:
 * nothing here belongs to a running job.
 *
 * 1. Every verb is one commit and safe to send twice.
 * 2. A deleted workflow is invisible here, but its versions stay readable for the jobs that run on them, and the next
 *    push goes on counting.
 * 3. An alias points only at versions that are there; every move is written down with it.
 */
export interface TokenFilter {
  readonly owner?: string
  /** Only those behind this one. */
  readonly after?: string
  /** All of them unless told. */
  readonly limit?: number
}

export interface Registry {
  /** The latest version of each of an owner's workflows, by name in the store's own order. */
  listWorkflows(query: {
    readonly owner: string
    /** The last name of the previous page. */
    readonly after?: string
    readonly limit: number
  }): Promise<WorkflowSummary[]>
  /** Newest first. */
  listVersions(
    query: WorkflowKey & { readonly before?: number; readonly limit: number },
  ): Promise<VersionRow[]>
  /** The number alone: definitions are large and every submit asks. */
  readLatest(key: WorkflowKey): Promise<number | null>
  hasVersion(key: WorkflowKey & { readonly version: number }): Promise<boolean>
  /** False: there was nothing to delete. */
  deleteWorkflow(deletion: WorkflowKey & { readonly at: number; readonly by: string }): Promise<boolean>

  readAlias(key: AliasKey): Promise<AliasRow | null>
  /** By name. */
  listAliases(key: WorkflowKey): Promise<AliasRow[]>
  /** Versions that are not there come back, and then nothing has changed. */
  putAlias(
    move: AliasKey & { readonly targets: readonly AliasTarget[]; readonly at: number; readonly by: string },
  ): Promise<{ readonly moved: boolean; readonly missing: readonly number[] }>
  /** False: there was none. */
  deleteAlias(deletion: AliasKey & { readonly at: number; readonly by: string }): Promise<boolean>
  /** Newest first; removals included, the workflow's too. */
  listAliasMoves(query: AliasKey & { readonly limit: number }): Promise<AliasMove[]>

  putToken(token: Omit<TokenRow, "revokedAt">): Promise<void>
  /** null also for a revoked one. */
  readToken(hash: string): Promise<TokenRow | null>
  /** Oldest first, revoked ones too. */
  listTokens(filter?: TokenFilter): Promise<TokenRow[]>
  /** False: there is none. One that is revoked keeps its time. */
  revokeToken(revocation: { readonly id: string; readonly at: number }): Promise<boolean>
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
  /** A version's chance is its weight among all; 0: it is never drawn. At least one is above 0. */
  readonly weight: number
}

export interface AliasRow {
  readonly alias: string
  /** By version. */
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

/** What one token may use up. Each: null: the server's default. */
export interface TokenLimits {
  /** Requests a second. */
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

/** Equal targets are equal texts: by version, nothing else in it. */
export function targetsText(targets: readonly AliasTarget[]): string {
  const pairs = targets.map(({ version, weight }) => [version, weight] as const)
  return JSON.stringify(pairs.sort((a, b) => a[0] - b[0]))
}

export function targetsOf(text: string): AliasTarget[] {
  return (JSON.parse(text) as [number, number][]).map(([version, weight]) => ({ version, weight }))
}
