/** The store in a bucket when the network or the server fails, and what people are told. */
import { once } from "node:events"
import { createServer, type Socket } from "node:net"
import { inspect } from "node:util"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { readLocation } from "../../src/artifacts/s3/location.ts"
import { sign } from "../../src/artifacts/s3/sign.ts"
import { S3Store } from "../../src/artifacts/s3/store.ts"
import { SWITCH, serveRaw } from "../worker/http/raw-server.ts"
import { type Bucket, freshBucket } from "./bucket.ts"
import { collected, inChunks, pattern, sha256 } from "./content.ts"
import { cuttingProxy, type Fault, faultyServer } from "./faults.ts"

const MB = 1024 * 1024
const options = { maxBytes: 100 * MB }
let bucket: Bucket
let endpoint: string
beforeAll(async () => {
  bucket = await freshBucket()
  endpoint = bucket.environment.AWS_ENDPOINT_URL_S3!
})
afterAll(() => bucket.remove())

/** Never gives up: what is asserted does not depend on how often a request was unlucky. */
function patientStore(url: string) {
  const store = bucket.store({ endpoint: url, tries: 100, pauseMs: 1 })
  onTestFinished(() => store.close())
  return store
}

describe("faults between the store and the server", () => {
  it("writes and reads through connections that are cut at any place", async () => {
    // The same in every run, in bytes: some cut the head of a request, others a part, an answer or a body that is read.
    const places = [300, 7 * MB, 5_000, undefined, 1, 12 * MB, 900, 2 * MB, undefined, 8 * MB + 700, 100_000]
    const proxy = await cuttingProxy(endpoint, connection => places[connection % places.length])
    const store = patientStore(proxy.url)
    for (const length of [0, 50_000, 3 * MB, 20 * MB]) {
      const bytes = pattern(length)
      const written = await store.write("cut", inChunks(bytes, MB), options)
      expect(written).toMatchObject({ hash: sha256(bytes), bytes: length })
      expect((await collected(await store.read(written.key))).equals(bytes)).toBe(true)
      const range = { first: 20, last: length - 20 }
      if (length > 100)
        expect((await collected(await store.read(written.key, range))).equals(bytes.subarray(20, -19))).toBe(
          true,
        )
      await store.remove(written.key)
      expect(await store.size(written.key)).toBeNull()
    }
    expect(proxy.state.cuts).toBeGreaterThan(5)
    expect(await bucket.keys()).toEqual([])
    expect(await bucket.uploads()).toEqual([])
  })

  it.each([
    { status: 500, code: "InternalError" },
    { status: 503, code: "SlowDown" },
    { status: 429, code: "TooManyRequests" },
    { status: 400, code: "RequestTimeout" },
    // Begun with 200, as long requests are.
    { status: 200, code: "InternalError" },
  ])("repeats what is answered with $status $code", async fault => {
    // An answer to HEAD has no code, and only a request with a result begins with 200.
    const isPossible = (method: string) =>
      fault.status === 200 ? method === "POST" : method !== "HEAD" || fault.status !== 400
    const server = await faultyServer(endpoint, ({ method, number }) =>
      number % 2 === 0 && isPossible(method) ? fault : undefined,
    )
    const store = patientStore(server.url)
    const bytes = pattern(20 * MB)
    const { key, hash } = await store.write("busy", inChunks(bytes, MB), options)
    expect(hash).toBe(sha256(bytes))
    expect(await store.size(key)).toBe(bytes.length)
    expect((await collected(await store.read(key))).equals(bytes)).toBe(true)
    expect((await store.list({ limit: 10 })).map(content => content.key)).toEqual([key])
    await store.remove(key)
  })

  it("stores nothing that was changed on its way", async () => {
    let corrupted = 0
    const server = await faultyServer(endpoint, ({ method, number }): Fault => {
      if (method !== "PUT" || number % 2 === 1) return undefined
      corrupted++
      return "corrupt"
    })
    const store = patientStore(server.url)
    for (const length of [1_000, 20 * MB]) {
      const bytes = pattern(length)
      const { key } = await store.write("noise", inChunks(bytes, MB), options)
      expect((await collected(await store.read(key))).equals(bytes)).toBe(true)
      await store.remove(key)
    }
    expect(corrupted).toBeGreaterThan(1)
    expect(server.statuses.filter(status => status >= 400).length).toBeGreaterThanOrEqual(corrupted)
  })

  it("notices that an upload was completed although the answer was lost", async () => {
    let lost = 0
    const server = await faultyServer(endpoint, ({ method, url }): Fault => {
      const isCompletion = method === "POST" && url.includes("uploadId")
      return isCompletion && lost++ === 0 ? "no answer" : undefined
    })
    const bytes = pattern(20 * MB)
    const store = patientStore(server.url)
    const { key } = await store.write("lost", inChunks(bytes, MB), options)
    expect(lost).toBeGreaterThan(1)
    expect((await collected(await store.read(key))).equals(bytes)).toBe(true)
    await store.remove(key)
  })

  it.each([
    ["a write that succeeds", async () => {}],
    [
      "a write that fails",
      async () => {
        throw new Error("the source failed")
      },
    ],
  ])("aborts uploads whose ids it never learned: %s", async (_name, end) => {
    let lost = 0
    const server = await faultyServer(endpoint, ({ method, url }): Fault => {
      const isCreation = method === "POST" && url.includes("uploads")
      return isCreation && lost++ < 2 ? "no answer" : undefined
    })
    const store = patientStore(server.url)
    const body = async function* () {
      yield* inChunks(pattern(17 * MB), MB)
      await end()
    }
    const key = await store.write("lost", body(), options).then(
      written => written.key,
      () => null,
    )
    expect(lost).toBe(3)
    expect(await bucket.uploads()).toEqual([])
    if (key !== null) await store.remove(key)
    expect(await bucket.keys()).toEqual([])
  })

  it("aborts the upload if a part keeps failing, also while the source is silent", async () => {
    const server = await faultyServer(
      endpoint,
      ({ url }): Fault => (url.includes("partNumber=2") ? { status: 500, code: "InternalError" } : undefined),
    )
    const store = bucket.store({ endpoint: server.url, tries: 3, pauseMs: 1 })
    onTestFinished(() => store.close())
    let ended = false
    const body = async function* () {
      try {
        yield* inChunks(pattern(17 * MB), MB)
        await new Promise(resolve => setTimeout(resolve, 60_000).unref())
      } finally {
        ended = true
      }
    }
    await expect(store.write("failing", body(), options)).rejects.toMatchObject({
      code: "E801",
      retryable: true,
    })
    expect(ended).toBe(false)
    expect(await bucket.keys()).toEqual([])
    expect(await bucket.uploads()).toEqual([])
  })

  it("gives up on a server that switches to another protocol", async () => {
    await using server = await serveRaw(SWITCH)
    const store = bucket.store({ endpoint: server.url, tries: 2, pauseMs: 1 })
    onTestFinished(() => store.close())
    await expect(store.size("a")).rejects.toMatchObject({
      code: "E801",
      message: expect.stringContaining("closed before a response"),
    })
  })

  it("gives up on a server that accepts connections and stays silent", async () => {
    const sockets = new Set<Socket>()
    const server = createServer(socket => void sockets.add(socket.on("error", () => {})))
    await once(server.listen(0, "127.0.0.1"), "listening")
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    const { port } = server.address() as { port: number }
    const store = bucket.store({ endpoint: `http://127.0.0.1:${port}`, tries: 2, silenceMs: 50 })
    await expect(store.size("a/b")).rejects.toMatchObject({
      code: "E801",
      message: expect.stringContaining("no data arrived"),
    })
    // A busy process gives up before it has accepted the second connection.
    await expect.poll(() => sockets.size).toBe(2)
  })
})

describe("messages for people", () => {
  const attempt = async (environment: Record<string, string>, location = bucket.location) => {
    const store = new S3Store(readLocation(location, { ...bucket.environment, ...environment }), {
      tries: 2,
      pauseMs: 1,
    })
    onTestFinished(() => store.close())
    return store.write("me", inChunks(pattern(10)), options).catch((error: unknown) => error)
  }

  it.each([
    [{ AWS_SECRET_ACCESS_KEY: "a-wrong-secret" }, "E810", "check AWS_ACCESS_KEY_ID"],
    [{ AWS_ACCESS_KEY_ID: "nobody:known" }, "E810", "AWS_ACCESS_KEY_ID"],
    [{ AWS_REGION: "mars-1" }, "E810", "AWS_REGION"],
    [{ AWS_ENDPOINT_URL_S3: "http://127.0.0.1:1" }, "E801", "ECONNREFUSED"],
  ])("with %o it is %s", async (environment, code, message) => {
    const error = await attempt(environment)
    expect(error).toMatchObject({ code, message: expect.stringContaining(message) })
    const text = inspect(error, { depth: 10, showHidden: true })
    const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY } = { ...bucket.environment, ...environment } as Record<
      string,
      string
    >
    for (const secret of [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY]) expect(text).not.toContain(secret)
  })

  it("names a bucket that does not exist, and how to create or choose one", async () => {
    expect(await attempt({}, "s3://no-such-bucket-here/x")).toMatchObject({
      code: "E810",
      message: expect.stringMatching(/s3:\/\/no-such-bucket-here\/x .*create the bucket/),
    })
  })
})

describe("URLs for clients", () => {
  it("give read access to one key for a limited time, as a download with its name and type", async () => {
    const store = bucket.store()
    onTestFinished(() => store.close())
    const bytes = pattern(1_000)
    const { key } = await store.write("me", inChunks(bytes), { ...options, type: "image/png" })
    const name = `a "name" (1)*'ü\u{1f600}.png`
    const url = await store.presign(key, { seconds: 60, name, type: "text/plain; charset=utf-8" })
    const response = await fetch(url)
    expect(response.status).toBe(200)
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true)
    expect(response.headers.get("content-type")).toMatch(/^text\/plain; ?charset=utf-8$/i)
    const disposition = response.headers.get("content-disposition")!
    expect(disposition).toMatch(/^attachment;filename\*=UTF-8''/)
    expect(decodeURIComponent(disposition.split("''")[1]!)).toBe(name)
    const other = await store.write("me", inChunks(bytes), options)
    expect((await fetch(url.replace(key, other.key))).status).toBe(403)
    expect((await fetch(url, { method: "DELETE" })).status).toBe(403)
    const range = await fetch(url, { headers: { range: "bytes=10-19" } })
    expect(Buffer.from(await range.arrayBuffer()).equals(bytes.subarray(10, 20))).toBe(true)
    for (const each of [key, other.key]) await store.remove(each)
  })

  it("end: one that was made an hour ago for a minute is refused", async () => {
    const location = readLocation(bucket.location, bucket.environment)
    const request = { method: "GET", key: "me/x", query: { "X-Amz-Expires": "60" } }
    const { url } = await sign(location, request, { inQuery: true, now: new Date(Date.now() - 3600_000) })
    expect((await fetch(url)).status).toBe(403)
  })
})
