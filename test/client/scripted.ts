/** A server that answers as the test says, request by request, and remembers what it was asked. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo, Socket } from "node:net"
import { text } from "node:stream/consumers"
import { onTestFinished } from "vitest"

export interface Request {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage["headers"]
  readonly body: string
}

export type Answer = (response: ServerResponse, request: Request) => void

export interface Scripted {
  readonly url: string
  readonly requests: readonly Request[]
  stop(): Promise<void>
}

/** The last answer is given to all further requests. */
export async function scripted(...answers: readonly Answer[]): Promise<Scripted> {
  const requests: Request[] = []
  const sockets = new Set<Socket>()
  const server = createServer(async (incoming, response) => {
    const { method = "", url = "", headers } = incoming
    const request = { method, path: url, headers, body: await text(incoming) }
    requests.push(request)
    answers[Math.min(requests.length, answers.length) - 1]!(response, request)
  })
  server.on("connection", socket => {
    sockets.add(socket)
    socket.on("close", () => sockets.delete(socket))
  })
  await new Promise<void>(done => server.listen(0, "127.0.0.1", done))
  const stop = async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise<void>(done => server.close(() => done()))
  }
  onTestFinished(stop)
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, stop }
}

export const json =
  (body: unknown, status = 200, headers: Record<string, string> = {}): Answer =>
  response =>
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body))

export const problem = (status: number, code: string, headers: Record<string, string> = {}): Answer =>
  json({ type: `urn:umbra:error:${code}`, title: "t", status, detail: `detail of ${code}`, code }, status, {
    "content-type": "application/problem+json",
    ...headers,
  })

/** The connection ends without an answer. */
export const drop: Answer = response => void response.socket?.destroy()

/** The parts of a stream; then it ends, or stays open (`open`), or is cut (`cut`). */
export const events =
  (parts: readonly string[], then: "end" | "open" | "cut" = "end"): Answer =>
  response => {
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" })
    response.write("retry: 5\n\n")
    for (const part of parts) response.write(part)
    if (then === "end") response.end()
    if (then === "cut") setTimeout(() => response.socket?.destroy(), 20)
  }

export function event(name: string, data: unknown, id?: string): string {
  return `event: ${name}\n${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`
}
