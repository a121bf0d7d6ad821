/** A server on 127.0.0.1 that answers every connection with given bytes. */

import type { AddressInfo } from "node:net"
import { createServer, type Socket } from "node:net"

interface RawServer extends AsyncDisposable {
  readonly url: string
  /** Connections that are open. */
  readonly open: ReadonlySet<Socket>
}

/** `answer` is called for the first bytes of each connection. */
export async function serveRaw(answer: string | ((socket: Socket) => void)): Promise<RawServer> {
  const open = new Set<Socket>()
  const server = createServer(socket => {
    open.add(socket)
    socket.on("error", () => {}).on("close", () => open.delete(socket))
    socket.once("data", () => (typeof answer === "string" ? socket.write(answer) : answer(socket)))
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  const close = () => {
    for (const socket of open) socket.destroy()
    return new Promise<void>(resolve => server.close(() => resolve()))
  }
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, open, [Symbol.asyncDispose]: close }
}

export const SWITCH = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"

/** Writes the same bytes again and again, until the connection is closed. */
export const flood = (bytes: string) => (socket: Socket) => {
  const timer = setInterval(() => socket.write(bytes), 2)
  socket.on("close", () => clearInterval(timer))
}
