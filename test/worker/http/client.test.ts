import { describe, expect, it } from "vitest"
import { HttpClient, type HttpRequest } from "../../../src/worker/http/client.ts"
import { flood, SWITCH, serveRaw } from "./raw-server.ts"

const client = new HttpClient({ allowPrivateAddresses: true })

const send = (url: string, more: Partial<HttpRequest> = {}) =>
  client.send({
    ...{ method: "GET", url: new URL(url), headers: {}, body: undefined, timeoutSeconds: 5 },
    ...{ maxRedirects: 5, maxResponseBytes: 1000, signal: new AbortController().signal, ...more },
  })

describe("HttpClient", () => {
  it("a switch of protocols fails at once, with every method, and closes the connection", async () => {
    for (const answer of [SWITCH, "HTTP/1.1 101 Switching Protocols\r\n\r\n"]) {
      await using server = await serveRaw(answer)
      for (const method of ["GET", "HEAD", "POST"]) {
        const body = method === "POST" ? "x" : undefined
        await expect(send(server.url, { method, body, timeoutSeconds: 60 })).rejects.toMatchObject({
          code: "E408",
          details: { cause: "HPE_UNEXPECTED_UPGRADE" },
        })
      }
      await expect.poll(() => server.open.size).toBe(0)
    }
  })

  it("bytes behind a switch of protocols, and errors of its connection, are ignored", async () => {
    await using server = await serveRaw(socket => {
      socket.write(`${SWITCH}more`)
      socket.resetAndDestroy()
    })
    await expect(send(server.url, { timeoutSeconds: 60 })).rejects.toMatchObject({ code: "E408" })
  })

  it("a flood of informational responses does not extend the time limit", async () => {
    for (const status of ["100 Continue", "102 Processing", "103 Early Hints"]) {
      await using server = await serveRaw(flood(`HTTP/1.1 ${status}\r\nLink: </x>\r\n\r\n`))
      await expect(send(server.url, { timeoutSeconds: 0.3 })).rejects.toMatchObject({
        code: "E408",
        message: expect.stringContaining("timeout_seconds"),
      })
      await expect.poll(() => server.open.size).toBe(0)
    }
  })

  it("an abort ends a request that got only informational responses", async () => {
    await using server = await serveRaw(flood("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"))
    const abort = new AbortController()
    const sent = send(server.url, { timeoutSeconds: 60, signal: abort.signal })
    setTimeout(() => abort.abort(new Error("cancelled")), 100)
    await expect(sent).rejects.toThrow()
    await expect.poll(() => server.open.size).toBe(0)
  })
})
