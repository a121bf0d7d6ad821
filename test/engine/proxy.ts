/** Stands between a process and PostgreSQL or Redis, and can behave as networks do. */
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
  /** Everything arrives, so much later and in order. 0: at once. */
  delay(ms: number): void
  /** New connections work again; the old ones stay dead, and whoever was not told of a close hears of it now. */
  heal(): void
  close(): Promise<void>
}

export async function proxyTo(target: string): Promise<Proxy> {
  const { hostname, port } = new URL(target)
  type Silence = "everything" | "answers" | null
  const pairs = new Set<{ readonly near: Socket; readonly far: Socket; lost: Silence }>()
  let silence: Silence = null
  let delayMs = 0
  const server = createServer(near => {
    const far = connect(Number(port), hostname)
    const pair = { near, far, lost: silence }
    pairs.add(pair)
    const end = () => {
      near.destroy()
      far.destroy()
      pairs.delete(pair)
    }
    const there = inOrder(
      chunk => far.write(chunk),
      () => delayMs,
    )
    const back = inOrder(
      chunk => near.write(chunk),
      () => delayMs,
    )
    near.on("data", chunk => pair.lost === "everything" || there(chunk))
    far.on("data", chunk => pair.lost !== null || back(chunk))
    for (const socket of [near, far])
      socket
        .on("error", () => {})
        .on("close", () => (pair.lost === "everything" && silence !== null) || end())
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
    delay(ms) {
      delayMs = ms
    },
    heal() {
      silence = null
      delayMs = 0
      for (const { near, far } of pairs) {
        if (!near.destroyed && !far.destroyed) continue
        near.destroy()
        far.destroy()
      }
    },
    async close() {
      dropAll()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

/** Passes chunks on after a delay that may change, never one before another. */
function inOrder(pass: (chunk: Buffer) => void, delayMs: () => number): (chunk: Buffer) => void {
  let last: Promise<void> | null = null
  return chunk => {
    const ms = delayMs()
    if (ms === 0 && last === null) {
      pass(chunk)
      return
    }
    const due = new Promise<void>(resolve => setTimeout(resolve, ms))
    const passed = Promise.all([last, due]).then(() => {
      pass(chunk)
      if (last === passed) last = null
    })
    last = passed
  }
}
