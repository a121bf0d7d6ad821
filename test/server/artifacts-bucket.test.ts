/** Artifacts in a bucket over HTTP: redirects to presigned URLs, and uploads that break off. */
import { createHash } from "node:crypto"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { createServer, type Server } from "node:http"
import { type AddressInfo, connect as connectSocket, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest"
import { connect } from "../../src/client/index.ts"
import { type Bucket, freshBucket } from "../artifacts/bucket.ts"
import { until } from "../engine/stage.ts"
import { openStage, type Stage } from "./stage.ts"

const sha = (text: string | Uint8Array) => `sha256:${createHash("sha256").update(text).digest("hex")}`

let bucket: Bucket
let stage: Stage
let alice: string
let bob: string

beforeAll(async () => {
  bucket = await freshBucket()
  for (const [name, value] of Object.entries(bucket.environment)) vi.stubEnv(name, value)
  stage = await openStage({ withTokens: true, umbra: { artifacts: { location: bucket.location } } })
  vi.unstubAllEnvs()
  alice = await stage.token("alice", "read", "submit", "manage")
  bob = await stage.token("bob", "read", "submit", "manage")
})
afterAll(async () => {
  await stage.close()
  await bucket.remove()
})

const put = async (
  body: string,
  { token = alice, type = "text/html; charset=utf-8", name = "ü x.html" } = {},
) =>
  (
    await stage.ask(`/artifacts?name=${encodeURIComponent(name)}`, {
      ...{ method: "POST", body, token, headers: { "content-type": type } },
    })
  ).body
/** Without following. */
const redirect = (hash: string, { token = alice, headers = {}, query = "" } = {}) =>
  fetch(`${stage.server.url}/artifacts/${hash}?redirect=true${query}`, {
    ...{ redirect: "manual" as const, headers: { authorization: `Bearer ${token}`, ...headers } },
  })

describe("GET /artifacts/{hash}?redirect=true", () => {
  it("S9 answers with a URL of the bucket that is valid for minutes, and gives a file with its name and type", async () => {
    const { artifact } = await put("<script>alert(1)</script>")
    const answer = await redirect(artifact)
    expect(answer.status).toBe(302)
    expect(await answer.text()).toBe("")
    expect(answer.headers.get("cache-control")).toBe("no-store")
    expect(answer.headers.get("content-disposition")).toBeNull()
    const url = new URL(answer.headers.get("location")!)
    expect(url.origin).toBe(bucket.environment.AWS_ENDPOINT_URL_S3)
    expect(url.searchParams.get("X-Amz-Expires")).toBe("300")
    expect(url.href).not.toContain(bucket.environment.AWS_SECRET_ACCESS_KEY!)
    // Anybody may use it, without a token.
    const content = await fetch(url)
    expect([content.status, await content.text()]).toEqual([200, "<script>alert(1)</script>"])
    expect(content.headers.get("content-type")?.replace(" ", "")).toBe("text/html;charset=utf-8")
    expect(content.headers.get("content-disposition")).toBe("attachment;filename*=UTF-8''%C3%BC%20x.html")
    const part = await fetch(url, { headers: { range: "bytes=0-7" } })
    expect([part.status, await part.text()]).toEqual([206, "<script>"])
    // For another key, or after a change, the signature does not count.
    for (const change of ["X-Amz-Expires", "response-content-disposition"]) {
      const other = new URL(url)
      other.searchParams.set(change, "600")
      expect((await fetch(other)).status, change).toBe(403)
    }
    expect((await fetch(url, { method: "DELETE" })).status).toBe(403)
    const named = await redirect(artifact, { query: "&name=other.txt" })
    expect(
      new URL(named.headers.get("location")!).searchParams.get("response-content-disposition"),
    ).toContain("other.txt")
  })

  it("checks the owner first: a hash of another owner is not found", async () => {
    const { artifact } = await put("of alice")
    expect((await redirect(artifact, { token: bob })).status).toBe(404)
    expect((await redirect(sha("of nobody"), { token: bob })).status).toBe(404)
    await put("of alice", { token: bob })
    const [first, second] = [await redirect(artifact), await redirect(artifact, { token: bob })]
    const keyOf = (answer: Response) => new URL(answer.headers.get("location")!).pathname
    expect(keyOf(first)).toContain("/alice/")
    expect(keyOf(second)).toContain("/bob/")
    const reader = await stage.token("alice", "submit")
    expect((await redirect(artifact, { token: reader })).status).toBe(403)
  })

  it("leads to nothing that was removed, nor to what the client has", async () => {
    const { artifact } = await put("soon gone")
    expect((await redirect(artifact, { headers: { "if-none-match": `"${artifact}"` } })).status).toBe(304)
    const head = await fetch(`${stage.server.url}/artifacts/${artifact}?redirect=true`, {
      ...{ method: "HEAD", redirect: "manual", headers: { authorization: `Bearer ${alice}` } },
    })
    // The URL would be for GET alone.
    expect([head.status, head.headers.get("content-length")]).toEqual([200, "9"])
    await stage.ask(`/artifacts/${artifact}`, { method: "DELETE", token: alice })
    expect((await redirect(artifact)).status).toBe(404)
  })

  it("is what the client uses for direct downloads", async () => {
    const asked: string[] = []
    const client = connect({
      ...{ url: stage.server.url, token: alice },
      fetch: async (input, init) => {
        const response = await fetch(input, init)
        asked.push(response.url)
        return response
      },
    })
    const reference = await client.artifacts.put("a.bin", "0123456789", { type: "image/x-test" })
    const whole = await client.artifacts.get(reference, { direct: true })
    expect([whole.type, whole.bytes, await whole.text()]).toEqual(["image/x-test", 10, "0123456789"])
    const part = await client.artifacts.get(reference, { direct: true, range: { first: 2, last: 4 } })
    expect([part.bytes, await part.text()]).toEqual([10, "234"])
    expect(asked.slice(1).map(url => new URL(url).origin)).toEqual(
      Array(2).fill(bucket.environment.AWS_ENDPOINT_URL_S3),
    )
  })

  it("sends the content itself from a folder", async () => {
    const folder = await mkdtemp(join(tmpdir(), "umbra-redirect-"))
    const other = await openStage({ umbra: { artifacts: { location: folder } } })
    onTestFinished(async () => {
      await other.close()
      await rm(folder, { recursive: true, force: true })
    })
    const { body } = await other.ask("/artifacts", { method: "POST", body: "in a folder" })
    const { status, body: text, headers } = await other.ask(`/artifacts/${body.artifact}?redirect=true`)
    expect([status, text]).toEqual([200, "in a folder"])
    expect(headers.get("content-security-policy")).toBe("default-src 'none'; sandbox")
    const client = connect({ url: other.server.url })
    expect(await (await client.artifacts.get(body.artifact, { direct: true })).text()).toBe("in a folder")
  })
})

/** Between a client and the server: ends connections after so many bytes of the client. */
async function cutting(
  port: number,
  limits: readonly number[],
): Promise<{ url: string; server: Server; cuts: () => number }> {
  let connections = 0
  const sockets = new Set<Socket>()
  const server = createServer()
  server.removeAllListeners("connection")
  server.on("connection", socket => {
    const limit = limits[connections++] ?? Number.POSITIVE_INFINITY
    const onward = connectSocket(port, "127.0.0.1")
    let sent = 0
    for (const one of [socket, onward]) {
      sockets.add(one)
      one.on("error", () => {})
      one.on("close", () => (one === socket ? onward : socket).destroy())
    }
    onward.pipe(socket)
    socket.on("data", chunk => {
      sent += chunk.length
      if (sent <= limit) onward.write(chunk)
      else socket.destroy()
    })
  })
  await new Promise<void>(done => server.listen(0, "127.0.0.1", done))
  onTestFinished(() => {
    // The client keeps its last connection open for as long as the server does: 72 s.
    for (const socket of sockets) socket.destroy()
    return new Promise<void>(done => server.close(() => done()))
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    server,
    cuts: () => connections,
  }
}

describe.each(["a folder", "a bucket"])("an upload that breaks off, into %s", kind => {
  it("leaves nothing, and the client repeats what can be repeated", async () => {
    const own = kind === "a bucket" ? await freshBucket() : null
    for (const [name, value] of Object.entries(own?.environment ?? {})) vi.stubEnv(name, value)
    const folder = await mkdtemp(join(tmpdir(), "umbra-cut-"))
    const target = await openStage({ umbra: { artifacts: { location: own?.location ?? folder } } })
    vi.unstubAllEnvs()
    onTestFinished(async () => {
      await target.close()
      await own?.remove()
      await rm(folder, { recursive: true, force: true })
    })
    // Files and objects, uploads in parts that are not completed, and rows.
    const left = async () => [
      own === null
        ? (await readdir(folder, { recursive: true, withFileTypes: true })).filter(entry => entry.isFile())
            .length
        : (await own.keys()).length + (await own.uploads()).length,
      (await target.umbra.artifacts.list()).artifacts.length,
    ]
    const bytes = new Uint8Array(20_000_000).fill(7)
    const port = Number(new URL(target.server.url).port)
    const stream = () =>
      new ReadableStream<Uint8Array>({
        start(controller) {
          for (let at = 0; at < bytes.length; at += 1_000_000)
            controller.enqueue(bytes.subarray(at, at + 1_000_000))
          controller.close()
        },
      })
    // A stream can be read once: the caller decides.
    const once = await cutting(port, [12_000_000])
    const single = connect({ url: once.url, retryMs: 1 })
    await expect(single.artifacts.put("cut", stream())).rejects.toMatchObject({ code: "E650" })
    expect(once.cuts()).toBe(1)
    await until("nothing is left", async () => (await left()).every(count => count === 0))
    // What is in memory is sent again, until it has arrived; twice the same is stored once.
    const often = await cutting(port, [12_000_000, 3_000_000])
    const retried: string[] = []
    const patient = connect({ url: often.url, retryMs: 1, onRetry: ({ error }) => retried.push(error.code) })
    const reference = await patient.artifacts.put("whole", bytes)
    expect(reference).toMatchObject({ artifact: sha(bytes), bytes: bytes.length })
    expect(retried).toEqual(["E650", "E650"])
    await until("one is left", async () => (await left()).every(count => count === 1))
    await patient.artifacts.put("whole", bytes)
    await until("one is left", async () => (await left()).every(count => count === 1))
  })
})
