/** Streams of the real server, through the client: resumed, moved to another server, ended. */

import type { AddressInfo } from "node:net"
import { connect as connectTo, createServer, type Server, type Socket } from "node:net"
import { describe, expect, it, onTestFinished } from "vitest"
import { connect, type JobStreamEvent } from "../../src/client/index.ts"
import { openStage, type Stage, stores } from "../server/stage.ts"

/** Passes bytes on to whichever server it is told, and cuts all connections when asked. */
async function cuttable(target: () => string): Promise<{ url: string; cut(): void }> {
  const sockets = new Set<Socket>()
  const proxy: Server = createServer(socket => {
    const onward = connectTo(Number(new URL(target()).port), "127.0.0.1")
    for (const one of [socket, onward]) {
      sockets.add(one)
      one.on("error", () => {})
      one.on("close", () => sockets.delete(one))
    }
    socket.pipe(onward).pipe(socket)
  })
  await new Promise<void>(done => proxy.listen(0, "127.0.0.1", done))
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  onTestFinished(() => {
    cut()
    proxy.close()
  })
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, cut }
}

const chain = (n: number) => ({
  name: "chain",
  nodes: Array.from({ length: n }, (_, i) => ({
    id: `n${i}`,
    handler: "approval",
    ...(i === 0 ? {} : { dependencies: [`n${i - 1}`] }),
  })),
})

/** The first node may wait before the stream begins. */
function tellsWaiting(event: JobStreamEvent): boolean {
  if (event.type === "snapshot") return event.data.nodes?.some(({ status }) => status === "WAITING") ?? false
  return event.type === "node" && event.data.status === "WAITING"
}

describe("streams of the real server", () => {
  it("S4 miss and repeat nothing while connections are cut and moved between servers", async () => {
    const store = await stores.PostgreSQL!()
    onTestFinished(() => store.remove())
    const stages: Stage[] = []
    for (let i = 0; i < 2; i++) {
      const stage = await openStage({ location: store.location })
      onTestFinished(() => stage.close())
      stages.push(stage)
    }
    let at = 0
    const proxy = await cuttable(() => stages[at]!.server.url)
    const umbra = connect({ url: proxy.url, retryMs: 5 })
    const LENGTH = 12
    const job = await umbra.submit(chain(LENGTH))
    const received: JobStreamEvent[] = []
    let next = 0
    for await (const event of job.stream()) {
      received.push(event)
      if (!tellsWaiting(event)) continue
      await stages[next % 2]!.umbra.signal(job.id, "approved", next)
      next++
      if (next % 3 === 0) {
        at = 1 - at
        proxy.cut()
      }
    }
    const steps = received.flatMap(event =>
      event.type === "node" ? [`${event.data.node} ${event.data.status}`] : [],
    )
    expect(new Set(steps).size).toBe(steps.length)
    expect(steps.filter(step => step.endsWith("COMPLETED"))).toHaveLength(LENGTH)
    expect(received.at(-1)).toMatchObject({ type: "end", data: { reason: "job_ended" } })
    const jobs = received.flatMap(event => (event.type === "job" ? [event.data.status] : []))
    expect(jobs.at(-1)).toBe("COMPLETED")
    expect(received.filter(({ type }) => type === "snapshot")).toHaveLength(1)
  })

  it("S4 of all jobs send each state of each job; watch yields each event once", async () => {
    const stage = await openStage()
    onTestFinished(() => stage.close())
    const proxy = await cuttable(() => stage.server.url)
    const umbra = connect({ url: proxy.url, retryMs: 5 })
    const job = await umbra.submit(chain(2))
    const stop = new AbortController()
    const states: string[] = []
    const all = (async () => {
      for await (const event of umbra.stream({ signal: stop.signal }))
        if (event.type === "job" && event.data.job_id === job.id) {
          states.push(event.data.status)
          if (event.data.status === "COMPLETED") stop.abort()
        }
    })()
    const keys: string[] = []
    for await (const { type, node, idempotency_key } of job.watch()) {
      keys.push(idempotency_key)
      if (type !== "node.waiting") continue
      proxy.cut()
      await stage.umbra.signal(job.id, "approved", node ?? "")
    }
    await all
    expect(states.at(-1)).toBe("COMPLETED")
    expect(new Set(states).size).toBe(states.length)
    expect(keys).toEqual((await stage.umbra.events(job.id)).map(event => event.idempotency_key))
  })
})
