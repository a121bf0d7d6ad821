/**
 * Artifacts: which content an owner has, and at which key of the content store it is. References to them are rows of `held`
 * (core/artifacts.ts), written in the append of the fact that refers, and removed with their job.
 *
 * 1. A row exists only after its content is durable. It is removed before its content, or after content that is marked.
 * 2. Only rows that nothing holds, and that were neither put nor claimed for a while, are marked. A marked row cannot be claimed; a
 *    put gives it the key of the new content. So whoever removes the content of a marked row removes nothing that is in use.
 * 3. `claim` comes before an append with new references: claimed rows are not marked or removed for a while.
 */
export interface ArtifactStore {
  /** The row of this content, with the key that counts. Another key than the given one: the owner has this content already. */
  put(artifact: NewArtifact): Promise<ArtifactRow>
  /**
   * Those of the hashes that the owner has, in any order. They stay for at least a minute after the claim. A claim that is not older
   * than `staleBefore` is left as it is, so that jobs that share an artifact do not wait for each other. Absent: `at`.
   */
  claim(claim: {
    readonly owner: string
    readonly hashes: readonly string[]
    readonly at: number
    readonly staleBefore?: number
  }): Promise<string[]>
  /** null: the owner has no such content. A row with `removedAt` has lost its content. */
  read(key: ArtifactName): Promise<ArtifactRow | null>
  /** In the order of their hashes. `jobId`: only those that this job refers to. */
  list(query: {
    readonly owner: string
    readonly jobId?: string | undefined
    readonly after?: string | undefined
    readonly limit: number
  }): Promise<ArtifactRow[]>
  /** The sum of all content of an owner. */
  usedBytes(owner: string): Promise<number>
  /**
   * Removes a row that nothing refers to, nor was claimed after `claimedBefore`; with `force` any row, which leaves a tombstone if
   * it is referred to. The caller removes the content at the returned key.
   */
  remove(
    removal: ArtifactName & {
      readonly at: number
      readonly claimedBefore: number
      readonly force: boolean
    },
  ): Promise<ArtifactRemoval>
  /**
   * Reads at most `limit` rows after the given one, and marks those that nothing refers to and that were put before `before` and claimed
   * before `claimedBefore`. `next`: the last row that was read; null: all were. With `dryRun` nothing changes.
   */
  mark(marking: {
    readonly before: number
    readonly claimedBefore: number
    readonly at: number
    readonly after: ArtifactName | null
    readonly limit: number
    readonly dryRun?: boolean
  }): Promise<{ readonly marked: readonly ArtifactRow[]; readonly next: ArtifactName | null }>
  /** Rows that were marked before `before`. */
  marked(query: { readonly before: number; readonly limit: number }): Promise<ArtifactRow[]>
  /** The content of a marked row was removed: the row goes, unless it has another key by now. */
  forget(row: ArtifactName & { readonly key: string | null }): Promise<void>
  /** Those of the keys that belong to a row. */
  knownKeys(keys: readonly string[]): Promise<string[]>
}

export interface ArtifactName {
  readonly owner: string
  /** `sha256:` and 64 hex digits. */
  readonly hash: string
}

export interface NewArtifact extends ArtifactName {
  readonly key: string
  readonly bytes: number
  readonly name: string
  readonly type: string
  readonly at: number
}

export interface ArtifactRow extends ArtifactName {
  /** null: the content was removed. */
  readonly key: string | null
  readonly bytes: number
  /** Of the last put. */
  readonly name: string
  readonly type: string
  readonly createdAt: number
  readonly lastPutAt: number
  readonly markedAt: number | null
  readonly removedAt: number | null
}

/** `referenced`: jobs refer to it, so nothing was removed. */
export interface ArtifactRemoval {
  readonly outcome: "removed" | "referenced" | "missing"
  readonly key: string | null
}
