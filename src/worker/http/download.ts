/** Content of a URL that becomes an artifact, as it arrives. What its bytes say of its type comes before what its server says. */
import { isMediaType } from "../../artifacts/transfer.ts"
import type { ArtifactReference } from "../../core/artifacts.ts"
import type { HandlerArtifacts } from "../artifacts.ts"
import { finalError } from "../fail.ts"
import { detectMediaType, HEAD_BYTES } from "../media-type.ts"
import { type HttpClient, type HttpRequest, type HttpStream, streamFault } from "./client.ts"

/** For one download: results may be films. */
const DOWNLOAD_SECONDS = 600
const MAX_REDIRECTS = 5

export interface Download
  extends Pick<HttpRequest, "url" | "signal" | "maxResponseBytes">,
    Partial<Pick<HttpRequest, "headers" | "timeoutSeconds" | "limitName" | "again">> {
  readonly now: () => number
}

/** The answer, with a status of success. Throws its fault otherwise. */
export async function download(
  http: HttpClient,
  { headers, timeoutSeconds = DOWNLOAD_SECONDS, now, ...request }: Download,
): Promise<HttpStream> {
  const stream = await http.open({
    ...{ method: "GET", body: undefined, timeoutSeconds, maxRedirects: MAX_REDIRECTS, ...request },
    headers: { accept: "*/*", ...headers },
  })
  await checkComplete(stream, headers)
  if (complete.has(stream.status) || stream.status === 206) return stream
  throw await streamFault(stream, now())
}

const complete = new Set([200, 201, 203])

/** Throws if the answer is a part of the content although none was asked for: with `Range` the node asks for one. */
export async function checkComplete(stream: HttpStream, sent: Download["headers"] = {}): Promise<void> {
  const { status, url, headers } = stream
  const isPart = status === 206 || (status < 300 && headers["content-range"] !== undefined)
  if (!isPart || "range" in sent) return
  await stream.body.return()
  throw finalError(
    "E411",
    `${url.origin} answered with a part of the content (${status}), not with all of it.`,
    {
      status,
    },
  )
}

export async function storeAnswer(
  artifacts: Pick<HandlerArtifacts, "put">,
  stream: HttpStream,
  { name, type }: { readonly name: string; readonly type?: string | undefined },
): Promise<ArtifactReference> {
  const { head, body } = await beginning(stream.body)
  try {
    return await artifacts.put(name, body, { type: type ?? detectMediaType(head) ?? declaredType(stream) })
  } finally {
    await stream.body.return()
  }
}

/** A type that is shown as media must have the bytes of it. */
function declaredType({ headers }: HttpStream): string {
  const [type = ""] = (headers["content-type"] ?? "").split(";")
  const plain = type.trim().toLowerCase()
  return /^(text|application)\/[\w.+-]+$/.test(plain) && isMediaType(plain)
    ? plain
    : "application/octet-stream"
}

/** The first bytes of a body, and all of it. */
export async function beginning(body: HttpStream["body"]) {
  const chunks: Buffer[] = []
  let size = 0
  while (size < HEAD_BYTES) {
    const { done, value } = await body.next()
    if (done) break
    chunks.push(value)
    size += value.length
  }
  const all = async function* () {
    yield* chunks
    yield* body
  }
  return { head: Buffer.concat(chunks).subarray(0, HEAD_BYTES), body: all() }
}

/** The last part of the path, as far as it can be a name of a file; undefined: there is none. */
export function fileName(url: URL): string | undefined {
  const last = url.pathname.split("/").at(-1) ?? ""
  const name = decoded(last)
    .replace(/[\p{Cc}\p{Surrogate}/\\]/gu, "_")
    .slice(0, 200)
  // A pair of surrogates may have been cut.
  return name === "" ? undefined : name.replace(/\p{Surrogate}/gu, "_")
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
