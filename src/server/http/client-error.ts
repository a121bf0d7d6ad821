/** What is no HTTP at all never becomes a request: it is answered here, on the bare connection, and that ends. */
import { STATUS_CODES } from "node:http"
import type { Socket } from "node:net"
import { UmbraError } from "../../errors.ts"
import { problemOf } from "./problem.ts"

/** To read the answer. */
const LINGER_MS = 500

const byCode: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, "The headers are larger than 16 KB."],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "The request did not arrive in time."],
}

export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, detail] = byCode[error.code ?? ""] ?? [400, "This is not HTTP as it should be."]
  const body = JSON.stringify({ ...problemOf(new UmbraError("E633", detail)), status })
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Content-Type: application/problem+json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  ]
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`)
  // Whoever does not hang up now is hung up on: a connection costs memory, whatever comes of it.
  setTimeout(() => socket.destroy(), LINGER_MS).unref()
}
