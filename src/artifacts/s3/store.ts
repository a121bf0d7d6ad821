/**
 * Content of artifacts in a bucket of S3, or of a server with its protocol: `<prefix>/<owner>/<random>`. Keys are without the prefix,
 * so that content can move to another bucket.
 */
import { randomUUID } from "node:crypto"
import type { IncomingMessage } from "node:http"
import {
  type ContentRange,
  type ContentStore,
  noContent,
  ownerPrefix,
  type PresignOptions,
  type StoredContent,
  type WriteOptions,
  type WrittenContent,
} from "../content-store.ts"
import { S3Client, type S3ClientOptions, S3Failure } from "./client.ts"
import type { S3Location } from "./location.ts"
import { upload } from "./upload.ts"
import { element, elements } from "./xml.ts"

/** As many as a server lists at once. */
const PAGE = 1_000
/** An upload in parts that was begun so long ago was left behind by a process that died. */
const ABANDONED_MS = 24 * 3600_000
/** How often a read is resumed after a lost connection without having received a byte since. */
const READ_TRIES = 6
/** Signatures are valid for a week at most. */
const LONGEST_SECONDS = 7 * 24 * 3600

export interface S3StoreOptions extends S3ClientOptions {
  readonly abandonedMs?: number
}

export class S3Store implements ContentStore {
  readonly label: string
  readonly #client: S3Client
  readonly #prefix: string
  readonly #abandonedMs: number

  /** Opens no connection. */
  constructor(location: S3Location, { abandonedMs = ABANDONED_MS, ...options }: S3StoreOptions = {}) {
    this.label = location.label
    this.#prefix = location.prefix
    this.#client = new S3Client(location, options)
    this.#abandonedMs = abandonedMs
  }

  async write(
    owner: string,
    body: AsyncIterable<Uint8Array>,
    options: WriteOptions,
  ): Promise<WrittenContent> {
    const key = `${ownerPrefix(owner)}/${randomUUID()}`
    const { digest, bytes } = await upload(this.#client, key, body, options)
    return { hash: `sha256:${digest}`, bytes, key }
  }

  async read(key: string, range?: ContentRange): Promise<AsyncIterable<Uint8Array>> {
    const begin = await this.#open(key, range)
    return begin === null ? nothing() : this.#resuming(key, begin, range)
  }

  async size(key: string): Promise<number | null> {
    try {
      const { headers } = await this.#client.send({ method: "HEAD", key, expects: [404] })
      return Number(headers["content-length"])
    } catch (error) {
      if (error instanceof S3Failure) return null
      throw error
    }
  }

  async remove(key: string): Promise<void> {
    try {
      await this.#client.send({ method: "DELETE", key, expects: [404] })
    } catch (error) {
      if (!(error instanceof S3Failure)) throw error
    }
  }

  async list({ after = "", limit }: { readonly after?: string | undefined; readonly limit: number }) {
    if (after === "") await this.#removeAbandoned()
    const found: StoredContent[] = []
    for (let last = after, more = true; more && found.length < limit; ) {
      const page = await this.#page(last, Math.min(PAGE, limit - found.length))
      found.push(...page.found)
      last = found.at(-1)?.key ?? last
      more = page.more
    }
    return found
  }

  async presign(key: string, { seconds, name, type }: PresignOptions): Promise<string> {
    // Without spaces: the two ways to encode one in a URL are not understood by all servers.
    return this.#client.presign(key, {
      "X-Amz-Expires": String(Math.min(LONGEST_SECONDS, Math.max(1, Math.ceil(seconds)))),
      "response-content-disposition": `attachment;filename*=UTF-8''${encodedName(name)}`,
      "response-content-type": type.replaceAll(" ", ""),
    })
  }

  async close(): Promise<void> {
    this.#client.close()
  }

  /** null: the range begins after the end. */
  async #open(key: string, range?: ContentRange): Promise<IncomingMessage | null> {
    const headers = range === undefined ? {} : { range: `bytes=${range.first}-${range.last}` }
    try {
      return await this.#client.open({ method: "GET", key, headers, expects: [404, 416] })
    } catch (error) {
      if (error instanceof S3Failure && error.status === 404) throw noContent(key)
      if (error instanceof S3Failure) return null
      throw error
    }
  }

  /** If the connection is lost, the read resumes at the same byte on a new connection. */
  async *#resuming(key: string, begin: IncomingMessage, range?: ContentRange): AsyncGenerator<Uint8Array> {
    let at = range?.first ?? 0
    let answer: IncomingMessage | null = begin
    for (let failed = 0; answer !== null; ) {
      try {
        for await (const chunk of spoken(answer, this.#client.silenceMs)) {
          at += chunk.length
          failed = 0
          yield chunk
        }
        return
      } catch (error) {
        if (++failed >= READ_TRIES) throw this.#client.explain(error)
        await this.#client.pause(failed)
        answer = await this.#open(key, { first: at, last: range?.last ?? Number.MAX_SAFE_INTEGER })
      }
    }
  }

  async #page(after: string, size: number): Promise<{ found: StoredContent[]; more: boolean }> {
    const query = {
      ...{ "list-type": "2", prefix: this.#prefix, "max-keys": String(size) },
      ...(after === "" ? {} : { "start-after": `${this.#prefix}${after}` }),
    }
    const { text } = await this.#client.send({ method: "GET", query })
    const found = elements(text, "Contents").map(content => ({
      key: (element(content, "Key") ?? "").slice(this.#prefix.length),
      bytes: Number(element(content, "Size")),
      written: new Date(element(content, "LastModified") ?? 0),
    }))
    return { found, more: found.length > 0 && element(text, "IsTruncated") === "true" }
  }

  /** For buckets without a rule that does it. Credentials without the right to do it are enough for all else. */
  async #removeAbandoned(): Promise<void> {
    for (const { key, uploadId, begun } of await this.#client.uploads().catch(() => []))
      if (key !== "" && uploadId !== "" && Date.now() - begun > this.#abandonedMs)
        await this.#client.send({ method: "DELETE", key, query: { uploadId } }).catch(() => {})
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** RFC 5987. */
const encodedName = (name: string): string =>
  encodeURIComponent(Buffer.from(name).toString()).replace(
    /['()*]/g,
    character => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )

/** Fails if no data arrives from the server while we wait for it; the time that the reader takes does not count. */
async function* spoken(answer: IncomingMessage, silenceMs: number): AsyncGenerator<Buffer> {
  const timeout = () =>
    answer.destroy(new Error(`no data arrived on the connection for ${silenceMs / 1000} s`))
  let timer = setTimeout(timeout, silenceMs)
  try {
    for await (const chunk of answer) {
      clearTimeout(timer)
      yield chunk
      timer = setTimeout(timeout, silenceMs)
    }
  } finally {
    clearTimeout(timer)
  }
}
