/** What callers may give as the content of an artifact, as a stream of bytes. */
import { createReadStream } from "node:fs"
import { UmbraError } from "../errors.ts"

/** A text is the content itself; a file is `{ path }`, never a URL: URLs may come from data of a job. */
export type ArtifactBody =
  | string
  | ArrayBuffer
  | ArrayBufferView
  | Iterable<Uint8Array | string>
  | AsyncIterable<Uint8Array | string>
  | URL
  | { readonly path: string }

const READ_BYTES = 256 * 1024
/** A larger chunk is split: hashing it at once would block the event loop. */
const CHUNK_BYTES = 1024 * 1024

export async function* bodyChunks(
  body: Exclude<ArtifactBody, URL>,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (typeof body === "string") yield* split(Buffer.from(body))
  else if (body instanceof ArrayBuffer) yield* split(new Uint8Array(body))
  else if (ArrayBuffer.isView(body))
    yield* split(new Uint8Array(body.buffer, body.byteOffset, body.byteLength))
  else if ("path" in body) yield* fileBytes(body)
  else for await (const chunk of body) yield* split(typeof chunk === "string" ? Buffer.from(chunk) : chunk)
}

/** Throws before anything is read. */
export function checkBody(body: unknown): asserts body is Exclude<ArtifactBody, URL> {
  if (typeof body === "string" || body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return
  if (body instanceof URL) throw invalid(urlProblem(body))
  if (typeof body === "object" && body !== null) {
    if (Symbol.asyncIterator in body || Symbol.iterator in body) return
    if ("path" in body && typeof body.path === "string" && body.path !== "") return
  }
  throw invalid("the content of an artifact must be a string, a buffer, a stream of buffers or { path }")
}

function urlProblem({ protocol }: URL): string {
  const what = `the content of an artifact cannot be read from ${protocol} URLs`
  if (protocol === "file:")
    return `${what}: they may come from data of a job. For a file of your own pass { path: fileURLToPath(url) }`
  return `${what} here. ctx.artifacts of a handler accepts http and https; otherwise fetch the URL, and pass the stream of the response`
}

async function* fileBytes({ path }: { readonly path: string }) {
  const source = createReadStream(path, { highWaterMark: READ_BYTES })
  try {
    yield* source as AsyncIterable<Buffer>
  } catch (error) {
    throw new UmbraError("E601", `the file for an artifact cannot be read: ${(error as Error).message}`)
  }
}

function* split(chunk: Uint8Array) {
  if (!(chunk instanceof Uint8Array))
    throw invalid("a stream with the content of an artifact must yield buffers or strings")
  for (let at = 0; at < chunk.byteLength; at += CHUNK_BYTES) yield chunk.subarray(at, at + CHUNK_BYTES)
}

const invalid = (message: string) => new UmbraError("E309", message)
