/**
 * Signed requests to one bucket, by `node:http` (docs/decisions/0071-s3-by-signed-requests.md).
 *
 * 1. The signature covers the SHA-256 of the body, so a server refuses a body that was changed on its way.
 * 2. Failures that may be temporary are retried: lost connections, 5xx, SlowDown. Every request here may be sent twice.
 * 3. No error contains credentials: of a response only `Code` and `Message` are used, and credentials in them are masked.
 */
import { webcrypto } from "node:crypto"
import { Agent, request as httpRequest, type IncomingMessage } from "node:http"
import { Agent as HttpsAgent, request as httpsRequest } from "node:https"
import { setTimeout as delay } from "node:timers/promises"
import { UmbraError } from "../../errors.ts"
import { storeFailed } from "../content-store.ts"
import type { S3Location } from "./location.ts"
import { sign } from "./sign.ts"
import { element, elements } from "./xml.ts"

export interface S3Request {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE"
  /** Without the prefix; absent: the request is about the bucket. */
  readonly key?: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array
  readonly signal?: AbortSignal | undefined
  /** Statuses other than success that the caller handles: they are thrown as `S3Failure`. */
  readonly expects?: readonly number[]
  readonly tries?: number
}

interface S3Answer {
  /** How often the request was sent: an earlier one may have been executed although its response was lost. */
  readonly tries: number
  readonly headers: IncomingMessage["headers"]
  readonly text: string
}

export interface S3ClientOptions {
  readonly tries?: number
  /** The first pause before a retry; the next ones are longer. */
  readonly pauseMs?: number
  /** How long a connection may transfer no data. */
  readonly silenceMs?: number
}

const LONGEST_PAUSE_MS = 5_000
const EMPTY = new Uint8Array(0)

/** A response of the server other than success. */
export class S3Failure extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.name = "S3Failure"
    this.status = status
    this.code = code
  }
}

export class S3Client {
  readonly location: S3Location
  readonly #agents = {
    "http:": new Agent({ keepAlive: true }),
    "https:": new HttpsAgent({ keepAlive: true }),
  }
  /** Keys derived for a day and region. */
  readonly #derived = new Map<string, ArrayBuffer>()
  readonly #tries: number
  readonly #pauseMs: number
  readonly silenceMs: number

  constructor(location: S3Location, options: S3ClientOptions = {}) {
    this.location = location
    this.#tries = options.tries ?? 6
    this.#pauseMs = options.pauseMs ?? 100
    this.silenceMs = options.silenceMs ?? 30_000
  }

  /** The whole answer, as text. */
  send(request: S3Request): Promise<S3Answer> {
    return this.#trying(request, async (answer, tries) => {
      const text = await readText(answer)
      // The server answers a request that takes long with 200 before it knows the result.
      if (text.includes("<Error>")) throw parseFailure({ headers: answer.headers, statusCode: 500 }, text)
      return { headers: answer.headers, text, tries }
    })
  }

  /** Resolves with the response once its headers have arrived; the caller reads the body. */
  open(request: S3Request): Promise<IncomingMessage> {
    return this.#trying(request, async answer => answer.setTimeout(0))
  }

  /** Uploads in parts of keys that begin with a text, which were neither completed nor aborted: the first of them, up to 1,000. */
  async uploads(begin = ""): Promise<{ key: string; uploadId: string; begun: number }[]> {
    const { prefix } = this.location
    const { text } = await this.send({ method: "GET", query: { uploads: "", prefix: `${prefix}${begin}` } })
    return elements(text, "Upload").map(upload => ({
      key: (element(upload, "Key") ?? "").slice(prefix.length),
      uploadId: element(upload, "UploadId") ?? "",
      begun: Date.parse(element(upload, "Initiated") ?? ""),
    }))
  }

  /** A URL that allows anybody to read the object for a limited time. */
  async presign(key: string, query: Readonly<Record<string, string>>): Promise<string> {
    const request = { method: "GET", key, query }
    return (await sign(this.location, request, { inQuery: true, derived: this.#derived })).url.href
  }

  /** The failure as an UmbraError: E801 if a retry may succeed, E810 if an operator has to act. */
  explain(error: unknown): UmbraError {
    const { label } = this.location
    const cure = error instanceof S3Failure ? suggestFix(error) : undefined
    if (cure === undefined) return storeFailed(label, this.#harmless(error))
    const { code, message } = error as S3Failure
    return new UmbraError(
      "E810",
      this.#masked(`the artifact store ${label} refused a request (${code}: ${message}): ${cure}`),
    )
  }

  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy()
  }

  async #trying<T>(
    request: S3Request,
    read: (answer: IncomingMessage, tries: number) => Promise<T>,
  ): Promise<T> {
    const tries = request.tries ?? this.#tries
    for (let failed = 1; ; failed++) {
      try {
        return await read(await this.#once(request), failed)
      } catch (error) {
        request.signal?.throwIfAborted()
        if (isExpected(error, request)) throw error
        if (failed >= tries || !mayPass(error)) throw this.explain(error)
        await this.pause(failed, request.signal)
      }
    }
  }

  /** Longer after every failure, and of random length, so that writers that failed together do not retry together. */
  async pause(failed: number, signal?: AbortSignal): Promise<void> {
    const longest = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2 ** (failed - 1))
    await delay(longest * (0.5 + Math.random() / 2), undefined, { signal }).catch(() =>
      signal?.throwIfAborted(),
    )
  }

  async #once(request: S3Request): Promise<IncomingMessage> {
    const { method, body, signal } = request
    const length =
      method === "PUT" || method === "POST" ? { "content-length": String(body?.length ?? 0) } : {}
    const headers = {
      ...request.headers,
      "x-amz-content-sha256": await digest(body ?? EMPTY),
    }
    const signed = await sign(this.location, { ...request, headers }, { derived: this.#derived })
    const answer = await this.#exchange(signed.url, {
      method,
      headers: { ...signed.headers, ...length, "user-agent": "umbra" },
      body,
      signal,
    })
    if ((answer.statusCode ?? 0) < 300) return answer
    throw parseFailure(answer, method === "HEAD" ? "" : await readText(answer))
  }

  #exchange(url: URL, { body, signal, ...options }: Sending): Promise<IncomingMessage> {
    const protocol = url.protocol as "http:" | "https:"
    const send = protocol === "https:" ? httpsRequest : httpRequest
    return new Promise((resolve, reject) => {
      const sent = send(url, { ...options, agent: this.#agents[protocol], ...(signal ? { signal } : {}) })
      const silent = `no data arrived on the connection for ${this.silenceMs / 1000} s`
      sent.setTimeout(this.silenceMs, () => sent.destroy(new Error(silent)))
      sent.on("response", resolve).on("error", reject)
      // Ends of a connection that are neither a response nor an error, such as an unrequested switch of protocols.
      sent.on("close", () => reject(new Error("the connection was closed before a response arrived")))
      sent.end(body)
    })
  }

  #harmless(error: unknown): Error {
    const { code, message } = error as { code?: unknown; message: string }
    const text = typeof code === "string" && !message.includes(code) ? `${code}: ${message}` : message
    return new Error(this.#masked(text))
  }

  #masked(text: string): string {
    const secrets = Object.values(this.location.credentials).filter(value => value !== undefined)
    return secrets.reduce((masked, secret) => masked.replaceAll(secret, "***"), text)
  }
}

/** A bucket that does not exist is never expected. */
function isExpected(error: unknown, { expects }: S3Request): boolean {
  if (!(error instanceof S3Failure) || error.code === "NoSuchBucket") return false
  return expects?.includes(error.status) === true
}

interface Sending {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | undefined
  readonly signal: AbortSignal | undefined
}

/** In the thread pool: a part of 8 MB takes milliseconds. */
async function digest(body: Uint8Array): Promise<string> {
  return Buffer.from(await webcrypto.subtle.digest("SHA-256", body)).toString("hex")
}

async function readText(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of answer) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

function parseFailure(
  { statusCode = 0, headers }: Pick<IncomingMessage, "statusCode" | "headers">,
  text: string,
): S3Failure {
  const code = element(text, "Code") ?? String(statusCode)
  const region = headers["x-amz-bucket-region"] ?? element(text, "Region")
  const message = element(text, "Message") ?? "no further information"
  return new S3Failure(statusCode, code, region === undefined ? message : `${message} (region ${region})`)
}

const passing = new Set(["RequestTimeout", "SlowDown", "InternalError", "ServiceUnavailable", "BadDigest"])

function mayPass(error: unknown): boolean {
  // A connection that failed.
  if (!(error instanceof S3Failure)) return true
  const { status, code } = error
  // 422 and XAmzContentSHA256Mismatch: the body was changed on its way.
  return (
    status >= 500 ||
    status === 429 ||
    status === 408 ||
    status === 422 ||
    passing.has(code) ||
    isMismatch(code)
  )
}

const isMismatch = (code: string): boolean => code === "XAmzContentSHA256Mismatch"

/** What an operator has to do; undefined: a retry may help. */
function suggestFix({ status, code }: S3Failure): string | undefined {
  if (code === "RequestTimeTooSkewed") return "set the clock of this machine"
  if (code === "NoSuchBucket") return "create the bucket, or name another one in UMBRA_ARTIFACTS"
  if (code === "AccessDenied" || code === "AllAccessDisabled")
    return "give the credentials the rights on the bucket that docs/operations/bucket.md lists"
  if (code === "AuthorizationHeaderMalformed" || status === 301 || status === 307)
    return "set AWS_REGION and AWS_ENDPOINT_URL_S3 to those of the bucket"
  if (status === 401 || status === 403)
    return "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
  return undefined
}
