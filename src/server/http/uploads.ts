/**
 * Bodies that are read as a stream. The server ends requests that have not arrived within `request_timeout_seconds`, which uploads may
 * exceed: an upload is ended if nothing of it arrives for this long.
 */
import type { IncomingMessage } from "node:http"
import type { Socket } from "node:net"
import { UmbraError } from "../../errors.ts"

const uploading = new WeakSet<Socket>()

/** Node.js reports a request that took too long once. */
export function isUploading(socket: Socket): boolean {
  return uploading.has(socket)
}

/** Throws E636 or E633 if the body is not the content itself: it would be stored as if it were. */
export function checkUpload({ headers }: Pick<IncomingMessage, "headers">): void {
  const encoding = headers["content-encoding"] ?? "identity"
  if (encoding.trim().toLowerCase() !== "identity")
    throw new UmbraError(
      "E636",
      "The content of an artifact is stored as it is sent: send it without Content-Encoding.",
    )
  if (headers["content-range"] !== undefined)
    throw new UmbraError(
      "E633",
      "An artifact is stored as a whole: send all of its content, without Content-Range.",
    )
  const transfer = headers["transfer-encoding"] ?? "chunked"
  if (transfer.trim().toLowerCase() !== "chunked")
    throw new UmbraError("E633", "The Transfer-Encoding of an upload must be chunked.")
}

/** The chunks of the body. Throws E633 if it breaks off, or nothing arrives for `silenceMs`. */
export async function* uploadedBytes(
  request: IncomingMessage,
  silenceMs: number,
): AsyncGenerator<Buffer, void, undefined> {
  const { socket } = request
  uploading.add(socket)
  const timer = setTimeout(() => request.destroy(new Error("Nothing arrived for too long.")), silenceMs)
  try {
    // A reader that stops, because the content is too large, answers on the same connection.
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      timer.refresh()
      yield chunk
    }
  } catch (error) {
    throw new UmbraError("E633", "Request body is incomplete.", { cause: error })
  } finally {
    clearTimeout(timer)
    uploading.delete(socket)
  }
}
