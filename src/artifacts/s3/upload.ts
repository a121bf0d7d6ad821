/**
 * Sends content while it arrives: in one request if it is small, otherwise in parts, of which a few are in memory and on their way.
 *
 * 1. Nothing is visible before all of it is sent: an upload in parts becomes an object when it is completed.
 * 2. After any failure the upload is aborted, with its parts, and an object that may exist already is removed. Only a process that dies, or a
 *    server that stays out of reach, leaves parts behind (`store.ts` removes them).
 */
import { createHash } from "node:crypto"
import { tooLarge, type WriteOptions } from "../content-store.ts"
import { interruptible } from "../interruptible.ts"
import { type S3Client, S3Failure } from "./client.ts"
import { element } from "./xml.ts"

const PART_BYTES = 8 * 1024 * 1024
/** The largest number of a part. */
const MOST_PARTS = 10_000
const IN_FLIGHT = 3
/** What a part buffer begins with: most content is small. */
const FIRST_BYTES = 64 * 1024
/** Clean-up has a shorter time limit than the upload that failed. */
const CLEANING_TRIES = 2

export interface Uploaded {
  /** SHA-256, in hex. */
  readonly digest: string
  readonly bytes: number
}

export async function upload(
  client: S3Client,
  key: string,
  body: AsyncIterable<Uint8Array>,
  { maxBytes, type = "application/octet-stream", signal }: WriteOptions,
): Promise<Uploaded> {
  signal?.throwIfAborted()
  const stop = new AbortController()
  const abort = () => stop.abort(signal?.reason)
  signal?.addEventListener("abort", abort, { once: true })
  const hash = createHash("sha256")
  let bytes = 0
  const measured = async function* () {
    for await (const chunk of interruptible(body, stop.signal)) {
      bytes += chunk.byteLength
      if (bytes > maxBytes) throw tooLarge(maxBytes)
      hash.update(chunk)
      yield chunk
    }
  }
  const object = new ObjectUpload(client, key, { type, stop })
  try {
    for await (const part of splitIntoParts(measured(), partBytes(maxBytes))) await object.add(part)
    await object.finish(bytes)
    return { digest: hash.digest("hex"), bytes }
  } catch (error) {
    stop.abort(error)
    await object.abandon()
    throw error
  } finally {
    signal?.removeEventListener("abort", abort)
  }
}

/** Some servers want all parts but the last to have one size, so it follows from the largest content that is allowed. */
const partBytes = (maxBytes: number): number => Math.max(PART_BYTES, Math.ceil(maxBytes / MOST_PARTS))

interface Part {
  readonly bytes: Uint8Array
  readonly isLast: boolean
}

/** Chunks are copied: their source may reuse the memory. There is at least one part, and only the last may be short. */
async function* splitIntoParts(body: AsyncIterable<Uint8Array>, size: number): AsyncGenerator<Part> {
  let part = Buffer.allocUnsafe(Math.min(size, FIRST_BYTES))
  let filled = 0
  for await (const chunk of body)
    for (let at = 0; at < chunk.byteLength; ) {
      if (filled === size) {
        yield { bytes: part, isLast: false }
        part = Buffer.allocUnsafe(size)
        filled = 0
      }
      const taken = Math.min(size - filled, chunk.byteLength - at)
      if (filled + taken > part.length) part = grown(part, Math.min(size, 2 * (filled + taken)))
      part.set(chunk.subarray(at, at + taken), filled)
      filled += taken
      at += taken
    }
  yield { bytes: part.subarray(0, filled), isLast: true }
}

function grown(part: Buffer, size: number): Buffer<ArrayBuffer> {
  const larger = Buffer.allocUnsafe(size)
  larger.set(part)
  return larger
}

interface ObjectOptions {
  readonly type: string
  /** Aborted if a part fails: no code awaits the upload of a part while the next part arrives. */
  readonly stop: AbortController
}

class ObjectUpload {
  readonly #client: S3Client
  readonly #key: string
  readonly #type: string
  readonly #stop: AbortController
  readonly #sending = new Set<Promise<void>>()
  /** By number; what the server calls them. */
  readonly #tags: string[] = []
  #count = 0
  #id: string | null = null
  /** May there be uploads of this key whose ids are not known? */
  #hasUnknown = false
  /** May there be an object? */
  #isClosing = false

  constructor(client: S3Client, key: string, { type, stop }: ObjectOptions) {
    this.#client = client
    this.#key = key
    this.#type = type
    this.#stop = stop
  }

  async add({ bytes, isLast }: Part): Promise<void> {
    if (isLast && this.#id === null) return this.#put(bytes)
    this.#id ??= await this.#create()
    while (this.#sending.size >= IN_FLIGHT) await Promise.race(this.#sending)
    this.#stop.signal.throwIfAborted()
    const sent = this.#send(++this.#count, bytes)
      .catch(error => this.#stop.abort(error))
      .finally(() => this.#sending.delete(sent))
    this.#sending.add(sent)
  }

  async finish(bytes: number): Promise<void> {
    await Promise.all(this.#sending)
    this.#stop.signal.throwIfAborted()
    if (this.#id !== null) await this.#complete(this.#id, bytes)
    await this.#abortUnknown()
  }

  async abandon(): Promise<void> {
    await Promise.all(this.#sending)
    const clean = { method: "DELETE", key: this.#key, tries: CLEANING_TRIES } as const
    // Parts that remain are not visible, and are removed later: the caller gets the original error, not that of the clean-up.
    if (this.#id !== null)
      await this.#client.send({ ...clean, query: { uploadId: this.#id } }).catch(() => {})
    await this.#abortUnknown()
    if (this.#isClosing) await this.#client.send(clean).catch(() => {})
  }

  /** A request whose answer was lost may have begun an upload. No other writer has this key. */
  async #abortUnknown(): Promise<void> {
    if (!this.#hasUnknown) return
    const found = await this.#client.uploads(this.#key).catch(() => [])
    for (const { key, uploadId } of found)
      await this.#client
        .send({ method: "DELETE", key, query: { uploadId }, tries: CLEANING_TRIES })
        .catch(() => {})
  }

  async #put(body: Uint8Array): Promise<void> {
    this.#isClosing = true
    const { signal } = this.#stop
    const headers = { "content-type": this.#type }
    await this.#client.send({ method: "PUT", key: this.#key, headers, body, signal })
  }

  /** Not aborted: the id of the upload would be unknown. */
  async #create(): Promise<string> {
    this.#hasUnknown = true
    const headers = { "content-type": this.#type }
    const answer = await this.#client.send({
      method: "POST",
      key: this.#key,
      query: { uploads: "" },
      headers,
    })
    const id = element(answer.text, "UploadId")
    if (id === undefined) throw this.#client.explain(new Error("the response has no UploadId"))
    this.#hasUnknown = answer.tries > 1
    return id
  }

  async #send(number: number, body: Uint8Array): Promise<void> {
    const query = { partNumber: String(number), uploadId: this.#id! }
    const { signal } = this.#stop
    const { headers } = await this.#client.send({ method: "PUT", key: this.#key, query, body, signal })
    if (headers.etag === undefined)
      throw this.#client.explain(new Error("the response to the upload of a part has no ETag"))
    this.#tags[number - 1] = headers.etag
  }

  /** It may have been completed by a request whose answer was lost: then the object is there, and the upload is not. */
  async #complete(id: string, bytes: number): Promise<void> {
    this.#isClosing = true
    const body = Buffer.from(listOfParts(this.#tags))
    const { signal } = this.#stop
    const request = {
      method: "POST",
      key: this.#key,
      query: { uploadId: id },
      body,
      signal,
      expects: [404],
    } as const
    try {
      await this.#client.send(request)
    } catch (error) {
      if (!(error instanceof S3Failure)) throw error
      if ((await this.#size()) !== bytes) throw this.#client.explain(error)
    }
  }

  async #size(): Promise<number> {
    const { headers } = await this.#client.send({ method: "HEAD", key: this.#key, signal: this.#stop.signal })
    return Number(headers["content-length"])
  }
}

function listOfParts(tags: readonly string[]): string {
  const parts = tags.map(
    (tag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${tag}</ETag></Part>`,
  )
  return `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts.join("")}</CompleteMultipartUpload>`
}
