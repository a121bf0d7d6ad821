/** Bytes that are not HTTP never become a request: this answers them on the raw connection and closes it. */
import { STATUS_CODES } from "node:http"
import type { Socket } from "node:net"
import { UmbraError } from "../../errors.ts"
import { problemOf } from "./problem.ts"

/** Time for the client to read the answer. */
const LINGER_MS = 500

const byCode: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, "Request headers exceed 16 KB."],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "The request did not arrive in time."],
}

export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, detail] = byCode[error.code ?? ""] ?? [400, "Malformed HTTP request."]
  const body = JSON.stringify({ ...problemOf(new UmbraError("E633", detail)), status })
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Content-Type: application/problem+json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  ]
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`)
  // The client must close the connection now, or the server does: an open connection costs memory.
  setTimeout(() => socket.destroy(), LINGER_MS).unref()
}
