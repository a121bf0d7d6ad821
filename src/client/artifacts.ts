/** Files and other large content that jobs refer to. */
import type {
  ArtifactView as Artifact,
  ArtifactPage,
  ArtifactReference,
  SweepReport as ArtifactSweep,
} from "../core/artifacts.ts"
import { entries, type Http } from "./http.ts"
import { segment } from "./requests.ts"
import type { Signalled } from "./types.ts"

export type { Artifact, ArtifactPage, ArtifactReference, ArtifactSweep }

/** Content without a length streams: a body of any size needs no memory. */
export type ArtifactUpload = Blob | ArrayBuffer | Uint8Array | string | ReadableStream<Uint8Array>

export interface ArtifactsOptions extends Signalled {
  /** Only those that this job refers to. */
  readonly jobId?: string | undefined
  /** `next` of the previous page. */
  readonly after?: string | undefined
  /** Artifacts per page, at most 1,000. */
  readonly limit?: number | undefined
}

interface DownloadOptions extends Signalled {
  readonly range?: { readonly first: number; readonly last?: number } | undefined
  readonly direct?: boolean | undefined
}

/** The longest timer. */
const LONGEST_MS = 2 ** 31 - 1

/** Content as it arrives. One of `body`, `text` and `buffer` can be used, once. */
export interface ArtifactDownload {
  readonly artifact: string
  readonly type: string
  /** Of the whole content, also if a range of it is read. */
  readonly bytes: number
  readonly body: ReadableStream<Uint8Array>
  text(): Promise<string>
  buffer(): Promise<ArrayBuffer>
}

export class RemoteArtifacts {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Stores content, without a time limit. Sends it again if the connection is lost, except a stream. */
  async put(
    name: string,
    body: ArtifactUpload,
    { type, signal }: { readonly type?: string | undefined } & Signalled = {},
  ): Promise<ArtifactReference> {
    const contentType =
      type ?? (typeof body === "string" ? "text/plain; charset=utf-8" : "application/octet-stream")
    const upload = { method: "POST", query: { name }, stream: body, contentType, signal } as const
    if (!(body instanceof ReadableStream))
      return this.#http.ask("/artifacts", { ...upload, safe: true, timeoutMs: LONGEST_MS })
    const response = await this.#http.send("/artifacts", upload, signal)
    return (await response.json()) as ArtifactReference
  }

  /** Opens content. `range`: the first and the last byte, inclusive. `direct`: from the bucket, if there is one. */
  async get(
    artifact: ArtifactReference | string,
    { range, direct, signal }: DownloadOptions = {},
  ): Promise<ArtifactDownload> {
    const hash = artifactHash(artifact)
    const headers = range === undefined ? {} : { range: `bytes=${range.first}-${range.last ?? ""}` }
    const query = direct ? { redirect: true } : {}
    const response = await this.#http.send(artifactPath(hash), { headers, query }, signal)
    const whole = /\/(\d+)$/.exec(response.headers.get("content-range") ?? "")?.[1]
    return {
      artifact: hash,
      type: response.headers.get("content-type") ?? "application/octet-stream",
      bytes: Number(whole ?? response.headers.get("content-length")),
      body: response.body!,
      text: () => response.text(),
      buffer: () => response.arrayBuffer(),
    }
  }

  /** All artifacts, or those that a job refers to; pages are requested as needed. */
  list(options: ArtifactsOptions = {}): AsyncGenerator<Artifact, void, undefined> {
    return entries((after?: string) => this.page({ ...options, after }), "artifacts", options.after)
  }

  page({ jobId, signal, ...query }: ArtifactsOptions = {}): Promise<ArtifactPage> {
    const path = jobId === undefined ? "/artifacts" : `/jobs/${segment(jobId)}/artifacts`
    return this.#http.ask(path, { query: { ...query }, signal })
  }

  /** Refused while jobs or schedules refer to it, unless `force` is true. */
  async remove(
    artifact: ArtifactReference | string,
    { force = false, signal }: { readonly force?: boolean | undefined } & Signalled = {},
  ): Promise<void> {
    await this.#http.ask(artifactPath(artifactHash(artifact)), { method: "DELETE", query: { force }, signal })
  }

  /** Marks unreferenced artifacts, and removes those that were marked before. Engines do the same. */
  sweep({
    dryRun = false,
    signal,
  }: { readonly dryRun?: boolean | undefined } & Signalled = {}): Promise<ArtifactSweep> {
    return this.#http.ask("/artifacts/sweep", { method: "POST", query: { dry_run: dryRun }, signal })
  }
}

function artifactHash(artifact: { readonly artifact: string } | string): string {
  return typeof artifact === "string" ? artifact : artifact.artifact
}

function artifactPath(hash: string): string {
  return `/artifacts/${segment(hash)}`
}
