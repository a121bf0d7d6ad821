/** `ctx.artifacts`: content of the job's owner, in the worker's process or in a thread. */
import type { ArtifactBody } from "../artifacts/body.ts"
import type { ContentStore } from "../artifacts/content-store.ts"
import { type ContentPlace, noContentStore, openContentStore } from "../artifacts/open.ts"
import type { ArtifactSettings } from "../artifacts/settings.ts"
import {
  type ArtifactAccess,
  type ArtifactContent,
  type GetOptions,
  openArtifact,
  type PutOptions,
  storeArtifact,
} from "../artifacts/transfer.ts"
import type {
  ArtifactAnswer,
  ArtifactQuestion,
  ArtifactReference,
  StoredArtifact,
} from "../core/artifacts.ts"
import { type ErrorCode, UmbraError } from "../errors.ts"
import { HttpClient } from "./http/client.ts"
import { download, storeAnswer } from "./http/download.ts"
import type { WorkerSettings } from "./settings.ts"

export interface HandlerArtifacts {
  /**
   * Stores content that outputs can refer to: a text, a buffer, a stream, `{ path }`, or a URL (`http:` or `https:`), whose
   * address is checked as that of `call_external_service`. The same content is stored once for each owner. Content that nothing
   * refers to is removed after a day.
   */
  put(name: string, body: ArtifactBody, options?: Pick<PutOptions, "type">): Promise<ArtifactReference>
  /** Opens content for reading: `for await (const chunk of content)`, `content.buffer()`, `content.text()`. */
  get(reference: { readonly artifact: string } | string, options?: GetOptions): Promise<ArtifactContent>
}

/** What threads and child processes of a worker need to open the same store. */
export interface SharedArtifacts extends Pick<WorkerSettings, "allowPrivateAddresses"> {
  /** null: none is configured. */
  readonly location: string | null
  readonly settings: ArtifactSettings
}

/** What a worker has of artifacts. */
export interface WorkerArtifacts extends SharedArtifacts {
  /** null: none is configured. */
  readonly content: ContentStore | null
  /** For content of URLs. */
  readonly http: HttpClient
}

/** `place` null: none is configured. */
export function workerArtifacts(
  place: ContentPlace | null,
  settings: ArtifactSettings,
  { allowPrivateAddresses }: Pick<WorkerSettings, "allowPrivateAddresses">,
): WorkerArtifacts {
  const http = new HttpClient({ allowPrivateAddresses })
  const content = place === null ? null : openContentStore(place)
  return { content, location: place?.location ?? null, settings, allowPrivateAddresses, http }
}

/** In a thread or a child process of a worker. */
export function sharedArtifacts({ location, settings, ...addresses }: SharedArtifacts): WorkerArtifacts {
  const place = location === null ? null : { location, isTemporary: false }
  return workerArtifacts(place, settings, addresses)
}

export interface AttemptArtifactsParts {
  readonly artifacts: WorkerArtifacts
  readonly owner: string
  readonly ask: (question: ArtifactQuestion) => Promise<ArtifactAnswer>
  /** Removes secrets. */
  readonly clean: (text: string) => string
  readonly signal: () => AbortSignal
  readonly now: () => number
}

/** Functions, so that a handler may destructure it. */
export function attemptArtifacts(parts: AttemptArtifactsParts): HandlerArtifacts {
  const { clean } = parts
  const put: HandlerArtifacts["put"] = async (name, body, { type } = {}) =>
    storeArtifact(createAccess(parts), typeof name === "string" ? clean(name) : name, body, {
      type: type === undefined ? undefined : clean(type),
      signal: parts.signal(),
    })
  return {
    put: async (name, body, options) =>
      isWebUrl(body) ? storeUrl(parts, put, { name, url: body, ...options }) : put(name, body, options),
    get: async (reference, options) => openArtifact(createAccess(parts), reference, options),
  }
}

const isWebUrl = (body: unknown): body is URL => body instanceof URL && /^https?:$/.test(body.protocol)

/** No header of the node's goes there: the URL has what it needs. */
async function storeUrl(
  { artifacts: { http, settings }, signal, now }: AttemptArtifactsParts,
  put: HandlerArtifacts["put"],
  { name, url, type }: { readonly name: string; readonly url: URL; readonly type?: string | undefined },
): Promise<ArtifactReference> {
  const { maxBytes: maxResponseBytes } = settings
  const limits = { maxResponseBytes, limitName: "artifact_max_bytes" }
  const stream = await download(http, { url, signal: signal(), now, ...limits })
  return storeAnswer({ put }, stream, { name, type })
}

function createAccess({ artifacts, owner, ask }: AttemptArtifactsParts): ArtifactAccess {
  const { content, settings } = artifacts
  if (content === null) throw noContentStore()
  const find = async (question: ArtifactQuestion): Promise<StoredArtifact | null> => {
    const answer = answered(await ask(question))
    return "artifact" in answer ? answer.artifact : null
  }
  return {
    owner,
    content,
    settings,
    rows: {
      put: async artifact => (await find({ type: "put", artifact })) ?? artifact,
      find: hash => find({ type: "find", hash }),
      usedBytes: async () => {
        const answer = answered(await ask({ type: "used" }))
        return "used" in answer ? answer.used : 0
      },
    },
  }
}

function answered(answer: ArtifactAnswer): Exclude<ArtifactAnswer, { readonly error: unknown }> {
  if (!("error" in answer)) return answer
  throw new UmbraError(answer.error.code as ErrorCode, answer.error.message)
}
