/** Servers between a client and S3 that do what networks and busy services do, as a plan says. */
import {
  createServer as createHttpServer,
  type IncomingMessage,
  request,
  type ServerResponse,
} from "node:http"
import { type AddressInfo, connect, createServer } from "node:net"
import { onTestFinished } from "vitest"

/** Cuts each connection after some bytes, in whichever direction; undefined: not this one. */
export async function cuttingProxy(target: string, cutAfter: (connection: number) => number | undefined) {
  const { hostname, port } = new URL(target)
  const state = { connections: 0, cuts: 0 }
  const server = createServer(near => {
    const far = connect(Number(port), hostname)
    let left = cutAfter(state.connections++) ?? Number.POSITIVE_INFINITY
    const end = () => {
      near.destroy()
      far.destroy()
    }
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const)
      from
        .on("data", chunk => {
          left -= chunk.length
          if (left < 0) {
            state.cuts++
            end()
          } else if (!to.write(chunk)) {
            from.pause()
            to.once("drain", () => from.resume())
          }
        })
        .on("error", () => {})
        .on("close", end)
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => new Promise<void>(resolve => void server.close(() => resolve())))
  return { ...address(server), state }
}

export type Fault =
  | { readonly status: number; readonly code: string }
  /** The request is performed, and its answer is lost. */
  | "no answer"
  /** One byte of the body is changed. */
  | "corrupt"
  | undefined

/** What happens to a request, the n-th of all. */
export type Plan = (request: {
  readonly method: string
  readonly url: string
  readonly number: number
}) => Fault

export async function faultyServer(target: string, plan: Plan) {
  const { hostname, port } = new URL(target)
  const statuses: number[] = []
  let number = 0
  const server = createHttpServer((near, answer) => {
    const fault = plan({ method: near.method!, url: near.url!, number: number++ })
    if (typeof fault === "object") return refuse(near, answer, fault)
    const { method, url, headers } = near
    const far = request({ hostname, port, method, path: url, headers }, response => {
      statuses.push(response.statusCode ?? 0)
      if (fault === "no answer") {
        response.resume().on("end", () => near.socket.destroy())
        return
      }
      answer.writeHead(response.statusCode ?? 500, response.headers)
      response.pipe(answer)
    })
    far.on("error", () => near.socket.destroy())
    if (fault === "corrupt") near.once("data", (chunk: Buffer) => chunk.writeUInt8(chunk.readUInt8(0) ^ 1, 0))
    near.pipe(far)
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    return new Promise<void>(resolve => void server.close(() => resolve()))
  })
  return { ...address(server), statuses }
}

function refuse(
  near: IncomingMessage,
  answer: ServerResponse,
  { status, code }: { status: number; code: string },
) {
  const body = near.method === "HEAD" ? "" : `<Error><Code>${code}</Code><Message>busy</Message></Error>`
  near.resume().on("end", () => answer.writeHead(status, { "content-type": "application/xml" }).end(body))
}

const address = (server: { address(): unknown }) => ({
  url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
})
