/** The provider counts what reaches it, also what it does not answer: each such request must have had its place. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo, Socket } from "node:net"
import { expect, it, onTestFinished } from "vitest"
import { openMemory } from "../../src/journal/sqlite/memory.ts"
import { httpProvider } from "../../src/provider/http-provider.ts"
import { openUmbra } from "../../src/umbra.ts"
import { until } from "../engine/stage.ts"

/** Keeps connections alive, and cuts each when it is used the second time. */
async function cuttingProvider() {
  const seen = new WeakMap<Socket, number>()
  const count = { received: 0, cut: 0, submitted: 0 }
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    count.received++
    const uses = (seen.get(request.socket) ?? 0) + 1
    seen.set(request.socket, uses)
    if (uses === 2) {
      count.cut++
      request.socket.destroy()
      return
    }
    if (request.method === "POST") count.submitted++
    const body = request.method === "POST" ? { id: `op-${count.submitted}` } : { status: "running" }
    request.resume().on("end", () => {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body))
    })
  }
  const server = createServer({ keepAliveTimeout: 60_000 }, answer)
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { count, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

it("X6 a request whose kept connection was cut is sent again with a place of its own", async () => {
  const { url, count } = await cuttingProvider()
  const journal = openMemory()
  let places = 0
  const { providers } = journal
  const take = providers.takeRate.bind(providers)
  providers.takeRate = async asked => {
    const place = await take(asked)
    if (place.taken) places++
    return place
  }
  const acme = httpProvider(
    {
      ...{ name: "acme", concurrency: null, rate: 50, poll_seconds: [0.01] },
      submit: { url: `${url}/films`, json: {}, external_id: "{{ body.id }}" },
      poll: { url: `${url}/films/{{ external_id }}`, status: "{{ body.status }}", done: ["done"] },
    },
    { allowPrivateAddresses: true },
  )
  const umbra = await openUmbra(journal, { providers: [acme], worker: { allowPrivateAddresses: true } })
  onTestFinished(() => umbra.close())
  const film = { handler: "external", provider: "acme" }
  const called = {
    handler: "call_external_service",
    provider: "acme",
    config: { method: "POST", url: `${url}/films` },
  }
  for (let n = 0; n < 4; n++)
    await umbra.submit({
      name: `film-${n}`,
      nodes: [
        { id: "a", ...film },
        { id: "b", ...called },
      ],
    })
  await until("many were cut", () => count.cut >= 20)
  await until("all are submitted", () => count.submitted >= 8)
  // What is on its way at this moment has its place and was not received yet.
  expect(count.received).toBeLessThanOrEqual(places)
})
