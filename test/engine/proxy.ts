/** Stands between the engine and PostgreSQL, and can behave as networks do. */
import { connect, createServer, type Socket } from "node:net"

export interface Proxy {
  readonly url: string
  /** Cuts every connection at once. New ones are let through. */
  drop(): void
  /**
   * Nothing is closed, but nothing passes any more, as when a machine between the two loses power; or only answers are
   * lost, so that what was sent is done and nobody hears of it.
   */
  goSilent(what: "everything" | "answers"): void
  /** New connections work again; the old ones stay dead. */
  heal(): void
  close(): Promise<void>
}

export async function proxyTo(target: string): Promise<Proxy> {
  const { hostname, port } = new URL(target)
  type Silence = "everything" | "answers" | null
  const pairs = new Set<{ readonly near: Socket; readonly far: Socket; lost: Silence }>()
  let silence: Silence = null
  const server = createServer(near => {
    const far = connect(Number(port), hostname)
    const pair = { near, far, lost: silence }
    pairs.add(pair)
    const end = () => {
      near.destroy()
      far.destroy()
      pairs.delete(pair)
    }
    near.on("data", chunk => pair.lost === "everything" || far.write(chunk))
    far.on("data", chunk => pair.lost !== null || near.write(chunk))
    for (const socket of [near, far])
      socket.on("error", () => {}).on("close", () => pair.lost === "everything" || end())
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  const url = new URL(target)
  url.port = String((server.address() as { port: number }).port)
  const dropAll = () => {
    for (const { near, far } of pairs) {
      near.destroy()
      far.destroy()
    }
    pairs.clear()
  }
  return {
    url: url.href,
    drop: dropAll,
    goSilent(what) {
      silence = what
      for (const pair of pairs) pair.lost = what
    },
    heal() {
      silence = null
    },
    async close() {
      dropAll()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
