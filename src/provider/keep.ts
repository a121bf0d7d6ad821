/**
 * `store: true` of a provider: URLs in its results and previews become artifacts, because they expire. Everywhere in a result or a preview,
 * a text that is an http or https URL and nothing else is replaced by the reference.
 *
 * 1. Only the engine downloads results of operations: polls of workers and webhooks bring the URLs.
 * 2. Addresses are checked as those of `call_external_service`, and no credentials are sent: a URL to be handed on has what it needs.
 * 3. All downloads of one result or preview have one time limit, and one place among those of all owners.
 * 4. A result that cannot be downloaded now is polled again; one that cannot be downloaded at all has failed. A preview is then shown as it is.
 */
import type { ArtifactReference } from "../core/artifacts.ts"
import type { OperationResult } from "../core/commands.ts"
import { toFault } from "../core/faults.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type { Keep } from "../engine/providers/providers.ts"
import type { HandlerArtifacts } from "../worker/artifacts.ts"
import { HandlerError } from "../worker/fail.ts"
import type { HandlerContext } from "../worker/handler.ts"
import type { HttpClient } from "../worker/http/client.ts"
import { download, fileName, storeAnswer } from "../worker/http/download.ts"
import { checkOutput } from "../worker/output.ts"

/** In one result or preview; more are left as they are. */
const MOST_URLS = 100
const MAX_BYTES = 2 ** 40
/** For all downloads of one result or preview. */
const STORE_SECONDS = 600
const POSTPONED_MS = 5_000
/** What the URLs of previews have become: they are the same in many polls. */
const REMEMBERED = 1_000

export interface Keeping extends Omit<Keep, "provider"> {
  readonly put: HandlerArtifacts["put"]
  readonly now: () => number
}

type Storing = Pick<Keeping, "put" | "signal" | "now">

export class UrlKeeper {
  readonly #http: HttpClient
  readonly #seconds: number
  readonly #previews = new Map<string, ArtifactReference>()

  /** `seconds`: a parameter for tests. */
  constructor(http: HttpClient, seconds = STORE_SECONDS) {
    this.#http = http
    this.#seconds = seconds
  }

  async result(result: OperationResult, keeping: Keeping): Promise<OperationResult> {
    if (result.type === "running" && result.preview !== undefined)
      return { ...result, preview: await this.#preview(result.preview, keeping) }
    if (result.type !== "completed" || urlsIn(result.output).length === 0) return result
    const release = await keeping.place()
    if (release === null) return { type: "postponed", until: keeping.now() + POSTPONED_MS }
    try {
      const output = await this.#inTime(keeping, storing => this.#value(result.output, storing))
      return { ...result, output }
    } catch (error) {
      const fault = toFault(error, { now: keeping.now(), thrower: "provider" })
      return fault.retryable ? { type: "error", fault } : { type: "failed", fault }
    } finally {
      release()
    }
  }

  /** Of a submission that was done at once. */
  async output(output: unknown, { artifacts, signal, now }: HandlerContext): Promise<Json> {
    const { value } = checkOutput(output, { maxBytes: Number.POSITIVE_INFINITY, what: "output" })
    return this.#value(value, { put: artifacts.put, signal, now })
  }

  /** The value, with references instead of URLs. */
  async #value(value: Json, storing: Storing): Promise<Json> {
    const urls = urlsIn(value)
    if (urls.length === 0) return value
    const stored = new Map<string, ArtifactReference>()
    for (const url of urls) stored.set(url, await this.#store(url, storing))
    return replaced(value, stored)
  }

  async #preview(preview: Json, keeping: Keeping): Promise<Json> {
    const urls = urlsIn(preview)
    const nameOfUrl = (url: string) => `${keeping.owner} ${url}`
    const missing = urls.filter(url => !this.#previews.has(nameOfUrl(url)))
    const release = missing.length === 0 ? null : await keeping.place()
    if (release !== null) {
      const store = async (storing: Storing) => {
        for (const url of missing) {
          const stored = await this.#store(url, storing).catch(() => undefined)
          if (stored !== undefined) this.#remember(nameOfUrl(url), stored)
        }
      }
      await this.#inTime(keeping, store)
        .catch(() => {})
        .finally(release)
    }
    const known = urls.flatMap(url => {
      const stored = this.#previews.get(nameOfUrl(url))
      return stored === undefined ? [] : [[url, stored] as const]
    })
    return known.length === 0 ? preview : replaced(preview, new Map(known))
  }

  #remember(name: string, stored: ArtifactReference): void {
    this.#previews.set(name, stored)
    if (this.#previews.size > REMEMBERED) this.#previews.delete(this.#previews.keys().next().value!)
  }

  /** Ends with the time limit or the signal, whatever the work does. */
  async #inTime<T>({ put, signal: outer, now }: Keeping, work: (storing: Storing) => Promise<T>): Promise<T> {
    const limit = new AbortController()
    const timer = setTimeout(() => limit.abort(tooSlow(this.#seconds)), this.#seconds * 1000)
    const signal = AbortSignal.any([outer, limit.signal])
    const aborted = new Promise<never>((_, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
    )
    try {
      signal.throwIfAborted()
      return await Promise.race([work({ put, signal, now }), aborted])
    } catch (error) {
      throw signal.aborted ? signal.reason : error
    } finally {
      clearTimeout(timer)
    }
  }

  async #store(text: string, { put, signal, now }: Storing): Promise<ArtifactReference> {
    const url = new URL(text)
    const stream = await download(this.#http, { url, signal, now, maxResponseBytes: MAX_BYTES })
    return storeAnswer({ put }, stream, { name: fileName(url) ?? "result" })
  }
}

function tooSlow(seconds: number): HandlerError {
  const message = `The content of the URLs in the provider's result could not be stored within ${seconds} s.`
  return new HandlerError(message, { code: "E408", retryable: true })
}

function urlsIn(value: Json): string[] {
  const found = new Set<string>()
  const open: Json[] = [value]
  while (open.length > 0 && found.size < MOST_URLS) {
    const next = open.pop()!
    if (typeof next === "string") {
      if (isUrl(next)) found.add(next)
    } else if (typeof next === "object" && next !== null) open.push(...Object.values(next))
  }
  return [...found]
}

const isUrl = (text: string): boolean => /^https?:\/\/\S+$/i.test(text) && URL.canParse(text)

function replaced(value: Json, stored: ReadonlyMap<string, ArtifactReference>): Json {
  if (typeof value === "string") return stored.get(value) ?? value
  if (Array.isArray(value)) return value.map(item => replaced(item, stored))
  if (typeof value !== "object" || value === null) return value
  const entries = Object.entries(value as JsonObject).map(([name, item]) => [name, replaced(item, stored)])
  return Object.fromEntries(entries)
}
