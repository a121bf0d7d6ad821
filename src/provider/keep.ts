/**
 * `store: true` of a provider: URLs in its results and previews become artifacts, because they expire. Everywhere in a result or a preview,
 * a text that is an http or https URL and nothing else is replaced by the reference.
 *
 * 1. Only the engine downloads results of operations: polls of workers and webhooks bring the URLs.
 * 2. Addresses are checked as those of `call_external_service`, and no credentials are sent: a URL to be handed on has what it needs.
 * 3. A result that cannot be downloaded now is polled again; one that cannot be downloaded at all has failed. A preview is then shown as it is.
 */
import type { ArtifactReference } from "../core/artifacts.ts"
import type { OperationResult } from "../core/commands.ts"
import { toFault } from "../core/faults.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type { HandlerArtifacts } from "../worker/artifacts.ts"
import type { HandlerContext } from "../worker/handler.ts"
import type { HttpClient } from "../worker/http/client.ts"
import { download, nameOf, storeAnswer } from "../worker/http/download.ts"
import { checkOutput } from "../worker/output.ts"

/** In one result or preview; more are left as they are. */
const MOST_URLS = 100
const MAX_BYTES = 2 ** 40
/** What the URLs of previews have become: they are the same in many polls. */
const REMEMBERED = 1_000

export interface Keeping {
  readonly put: HandlerArtifacts["put"]
  readonly owner: string
  readonly signal: AbortSignal
  readonly now: () => number
}

export class UrlKeeper {
  readonly #http: HttpClient
  readonly #previews = new Map<string, ArtifactReference>()

  constructor(http: HttpClient) {
    this.#http = http
  }

  async result(result: OperationResult, keeping: Keeping): Promise<OperationResult> {
    if (result.type === "running" && result.preview !== undefined)
      return { ...result, preview: await this.#preview(result.preview, keeping) }
    if (result.type !== "completed") return result
    try {
      return { ...result, output: await this.#value(result.output, keeping) }
    } catch (error) {
      const fault = toFault(error, { now: keeping.now(), thrower: "provider" })
      return fault.retryable ? { type: "error", fault } : { type: "failed", fault }
    }
  }

  /** Of a submission that was done at once. */
  async output(output: unknown, { artifacts, signal, now }: HandlerContext): Promise<Json> {
    const { value } = checkOutput(output, { maxBytes: Number.POSITIVE_INFINITY, what: "output" })
    return this.#value(value, { put: artifacts.put, signal, now })
  }

  /** The value, with references instead of URLs. */
  async #value(value: Json, keeping: Omit<Keeping, "owner">): Promise<Json> {
    const urls = urlsIn(value)
    if (urls.length === 0) return value
    const stored = new Map<string, ArtifactReference>()
    for (const url of urls) stored.set(url, await this.#store(url, keeping))
    return replaced(value, stored)
  }

  async #preview(preview: Json, keeping: Keeping): Promise<Json> {
    const stored = new Map<string, ArtifactReference>()
    for (const url of urlsIn(preview)) {
      const name = `${keeping.owner} ${url}`
      const known = this.#previews.get(name) ?? (await this.#store(url, keeping).catch(() => undefined))
      if (known === undefined) continue
      stored.set(url, known)
      this.#previews.set(name, known)
      if (this.#previews.size > REMEMBERED) this.#previews.delete(this.#previews.keys().next().value!)
    }
    return stored.size === 0 ? preview : replaced(preview, stored)
  }

  async #store(text: string, { put, signal, now }: Omit<Keeping, "owner">): Promise<ArtifactReference> {
    const url = new URL(text)
    const stream = await download(this.#http, { url, signal, now, maxResponseBytes: MAX_BYTES })
    return storeAnswer({ put }, stream, { name: nameOf(url) ?? "result" })
  }
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
