/**
 * One kept-alive HTTP connection that sends a request, reads the answer, and does little else: the server is
 * measured.
 */
import { connect, type Socket } from "node:net"

export class Connection {
  readonly #socket: Socket
  #received = ""
  #answer: ((status: number) => void) | null = null

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.setEncoding("latin1").on("data", (text: string) => {
      this.#received += text
      this.#read()
    })
  }

  static open(port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1", () => resolve(new Connection(socket)))
      socket.once("error", reject)
    })
  }

  /** Resolves with the status. `request` is the whole text, head and body. */
  send(request: string): Promise<number> {
    return new Promise(resolve => {
      this.#answer = resolve
      this.#socket.write(request)
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  #read(): void {
    const end = this.#received.indexOf("\r\n\r\n")
    if (end === -1) return
    const length = Number(/content-length: (\d+)/i.exec(this.#received)?.[1] ?? 0)
    if (this.#received.length < end + 4 + length) return
    const status = Number(this.#received.slice(9, 12))
    this.#received = this.#received.slice(end + 4 + length)
    this.#answer?.(status)
  }
}

export function requestText(method: string, path: string, body?: unknown): string {
  const text = body === undefined ? "" : JSON.stringify(body)
  const head = [`${method} ${path} HTTP/1.1`, "host: 127.0.0.1"]
  if (body !== undefined)
    head.push("content-type: application/json", `content-length: ${Buffer.byteLength(text)}`)
  return `${head.join("\r\n")}\r\n\r\n${text}`
}
