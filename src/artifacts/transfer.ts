/**
 * Stores and opens content for one owner: in the process of the engine, and in workers, which query the engine for rows.
 *
 * 1. Content first, then its row: a process that dies in between leaves content without a row, which the sweep removes.
 * 2. The reference is given to the caller when the row is durable, so no fact refers to content that is not there.
 */
import { type ArtifactReference, isArtifactHash, type StoredArtifact } from "../core/artifacts.ts"
import { UmbraError } from "../errors.ts"
import { failpoint } from "../failpoints.ts"
import { type ArtifactBody, bodyChunks, checkBody } from "./body.ts"
import type { ContentRange, ContentStore } from "./content-store.ts"
import type { ArtifactSettings } from "./settings.ts"

/** The rows of one owner. */
export interface ArtifactRows {
  put(artifact: StoredArtifact & { readonly key: string }): Promise<StoredArtifact>
  find(hash: string): Promise<StoredArtifact | null>
  usedBytes(): Promise<number>
}

export interface ArtifactAccess {
  readonly owner: string
  readonly content: ContentStore
  readonly rows: ArtifactRows
  readonly settings: Pick<ArtifactSettings, "maxBytes" | "quotaBytes" | "orphanHours">
}

export interface PutOptions {
  /** A media type; default: `text/plain; charset=utf-8` for a text, `application/octet-stream` for everything else. */
  readonly type?: string | undefined
  readonly signal?: AbortSignal | undefined
}

export interface GetOptions {
  /** The first and the last byte that is wanted; without `last` all to the end. A last byte after the end is the end. */
  readonly range?: { readonly first: number; readonly last?: number | undefined } | undefined
}

export async function storeArtifact(
  access: ArtifactAccess,
  name: string,
  body: ArtifactBody,
  { type, signal }: PutOptions = {},
): Promise<ArtifactReference> {
  checkName(name)
  checkBody(body)
  const media = mediaType(type ?? (typeof body === "string" ? TEXT : BYTES))
  const { owner, content, rows } = access
  const limit = await uploadLimit(access)
  const { hash, bytes, key } = await limit.write(() =>
    content.write(owner, bodyChunks(body), { maxBytes: limit.maxBytes, type: media, signal }),
  )
  failpoint("artifact.written")
  const writtenAt = performance.now()
  const row = await rows.put({ hash, key, bytes, name, type: media })
  failpoint("artifact.registered")
  if (row.key !== key) await content.remove(key).catch(() => {})
  else await mustStillExist(access, key, writtenAt)
  return { artifact: hash, name, type: media, bytes }
}

/** A process that was suspended for a long time may register content that the sweep has removed meanwhile. */
async function mustStillExist(
  { content, settings }: ArtifactAccess,
  key: string,
  writtenAt: number,
): Promise<void> {
  const isLate = performance.now() - writtenAt > (settings.orphanHours * HOUR_MS) / 2
  if (isLate && (await content.size(key)) === null)
    throw new UmbraError(
      "E801",
      "the content of an artifact was removed before it was registered. Store it again",
    )
}

interface Limit {
  readonly maxBytes: number
  write<T>(write: () => Promise<T>): Promise<T>
}

/** With a quota, the content may use what is left of the quota. Content of several writers at once may exceed it. */
async function uploadLimit({ rows, settings }: ArtifactAccess): Promise<Limit> {
  const { maxBytes, quotaBytes } = settings
  if (quotaBytes === null) return { maxBytes, write: write => write() }
  const left = Math.max(0, quotaBytes - (await rows.usedBytes()))
  if (left >= maxBytes) return { maxBytes, write: write => write() }
  const exceeded = new UmbraError(
    "E805",
    `the artifacts of this owner would exceed their quota of ${quotaBytes} bytes (artifact_quota_bytes); ${left} bytes are left. Remove artifacts, or raise the setting`,
  )
  return {
    maxBytes: left,
    write: write =>
      write().catch(error => {
        throw error instanceof UmbraError && error.code === "E804" ? exceeded : error
      }),
  }
}

/** `reference`: what `storeArtifact` returned, or its hash. */
export async function openArtifact(
  { content, rows }: Pick<ArtifactAccess, "content" | "rows">,
  reference: { readonly artifact: string } | string,
  { range }: GetOptions = {},
): Promise<ArtifactContent> {
  const hash = parseArtifactHash(reference)
  const row = await rows.find(hash)
  if (row === null) throw noArtifact(hash)
  if (row.key === null) throw removedArtifact(hash)
  const part = range === undefined ? undefined : rangeWithin(range, row.bytes)
  return new ArtifactContent(row, await content.read(row.key, part))
}

export function parseArtifactHash(reference: unknown): string {
  const hash =
    typeof reference === "object" && reference !== null && "artifact" in reference
      ? reference.artifact
      : reference
  if (isArtifactHash(hash)) return hash
  throw new UmbraError(
    "E309",
    'a reference to an artifact must be "sha256:" followed by 64 hex digits, or an object that has this in its field "artifact"',
  )
}

export function noArtifact(hash: string): UmbraError {
  return new UmbraError("E802", `there is no artifact ${hash}`)
}

export function removedArtifact(hash: string): UmbraError {
  return new UmbraError("E803", `the content of the artifact ${hash} was removed`)
}

/** Throws E809 if it has no byte of the content. */
export function rangeWithin(
  { first, last = Number.MAX_SAFE_INTEGER }: NonNullable<GetOptions["range"]>,
  bytes: number,
): ContentRange {
  const isRange = Number.isSafeInteger(first) && Number.isSafeInteger(last) && first >= 0 && last >= first
  if (!isRange || first >= bytes)
    throw new UmbraError(
      "E809",
      `the range ${first} to ${last} is outside the artifact, which has ${bytes} bytes`,
    )
  return { first, last: Math.min(last, bytes - 1) }
}

/** Content of an artifact as it is read, once: `for await (const chunk of content)`, or one of the methods. */
export class ArtifactContent implements AsyncIterable<Uint8Array> {
  readonly artifact: string
  /** Of the last `put` of this content. */
  readonly name: string
  readonly type: string
  /** Of the whole content, also if a range of it is read. */
  readonly bytes: number
  readonly #chunks: AsyncIterable<Uint8Array>

  constructor({ hash, name, type, bytes }: StoredArtifact, chunks: AsyncIterable<Uint8Array>) {
    this.artifact = hash
    this.name = name
    this.type = type
    this.bytes = bytes
    this.#chunks = chunks
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return this.#chunks[Symbol.asyncIterator]()
  }

  /** All of it, in memory. */
  async buffer(): Promise<Buffer> {
    const chunks: Uint8Array[] = []
    for await (const chunk of this) chunks.push(chunk)
    return Buffer.concat(chunks)
  }

  async text(): Promise<string> {
    return (await this.buffer()).toString("utf8")
  }
}

const TEXT = "text/plain; charset=utf-8"
const BYTES = "application/octet-stream"
const HOUR_MS = 3600_000
const MAX_NAME = 200
const MAX_TYPE = 200

function checkName(name: unknown): asserts name is string {
  if (
    typeof name === "string" &&
    name !== "" &&
    name.length <= MAX_NAME &&
    !/\p{Cc}|\p{Surrogate}/u.test(name)
  )
    return
  throw new UmbraError(
    "E309",
    `the name of an artifact must be a string of 1 to ${MAX_NAME} characters without control characters`,
  )
}

const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+( *; *[\w!#$&^.+-]+=([\w!#$&^.+-]+|"[^"\\\p{Cc}]*"))*$/u

/** Names and types of artifacts are sent as headers. */
export function isMediaType(type: unknown): type is string {
  return (
    typeof type === "string" &&
    type.length <= MAX_TYPE &&
    /^[\x20-\x7e]+$/.test(type) &&
    MEDIA_TYPE.test(type)
  )
}

function mediaType(type: unknown): string {
  if (isMediaType(type)) return type
  throw new UmbraError("E309", 'the type of an artifact must be a media type, for example "image/png"')
}
