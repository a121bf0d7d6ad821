/**
 * The port of artifact content: a folder, or a bucket. A content store knows nothing of jobs, rows or references.
 *
 * 1. Nothing is visible under a key before all of its content is durable; content of a key never changes.
 * 2. Every write has a key of its own, also of content that is stored already: the rows of the journal map (owner, hash) to one
 *    key. So the removal of a key removes nothing else. A key begins with `ownerPrefix(owner)` and a slash.
 * 3. A failure of the store is E801, which may be retried.
 *
 * Every adapter passes the contract in test/artifacts/contract.ts.
 */
import { createHash } from "node:crypto"
import { UmbraError } from "../errors.ts"

export interface ContentStore {
  /** The name of the store in messages, without credentials. */
  readonly label: string
  /** Hashes content while it streams in. Rejects content above `maxBytes` (E804), and leaves nothing of it behind. */
  write(owner: string, body: AsyncIterable<Uint8Array>, options: WriteOptions): Promise<WrittenContent>
  /** Throws E802 if there is no content at `key`, before anything is streamed. `range` is inclusive, and within the content. */
  read(key: string, range?: ContentRange): Promise<AsyncIterable<Uint8Array>>
  /** null: there is no content at `key`. */
  size(key: string): Promise<number | null>
  /** No error if it does not exist. */
  remove(key: string): Promise<void>
  /** Keys in a fixed order, starting after `after`, at most `limit`: for the sweep of content without a row. */
  list(options: { readonly after?: string | undefined; readonly limit: number }): Promise<StoredContent[]>
  /** A URL that allows a client to read it for a limited time; null: the store cannot create one. */
  presign?(key: string, options: PresignOptions): Promise<string | null>
  close(): Promise<void>
}

export interface WriteOptions {
  readonly maxBytes: number
  readonly type?: string | undefined
  readonly signal?: AbortSignal | undefined
}

export interface WrittenContent {
  /** `sha256:` and 64 hex digits. */
  readonly hash: string
  readonly bytes: number
  readonly key: string
}

/** The first and the last byte, as in HTTP. */
export interface ContentRange {
  readonly first: number
  readonly last: number
}

export interface StoredContent {
  readonly key: string
  readonly bytes: number
  /** The time of its last write. */
  readonly written: Date
}

export interface PresignOptions {
  readonly seconds: number
  readonly name: string
  readonly type: string
}

/** The first part of an owner's keys. Owners may have any name; folders and buckets accept only some, and not all of them are case-sensitive. */
export function ownerPrefix(owner: string): string {
  if (/^[a-z0-9][a-z0-9_-]{0,62}$/.test(owner)) return owner
  return `~${createHash("sha256").update(owner).digest("hex").slice(0, 40)}`
}

export function noContent(key: string): UmbraError {
  return new UmbraError("E802", `there is no content at ${key} in the artifact store`)
}

export function tooLarge(maxBytes: number): UmbraError {
  return new UmbraError(
    "E804",
    `the content is larger than ${maxBytes} bytes: raise artifact_max_bytes, or store smaller content`,
  )
}

/** `cause` is what the file system or the network reported. */
export function storeFailed(label: string, cause: unknown): UmbraError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new UmbraError("E801", `the artifact store ${label} failed: ${reason}`, { cause })
}
