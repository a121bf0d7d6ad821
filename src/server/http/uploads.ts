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
