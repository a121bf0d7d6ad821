/** 1 GB passes through the library and through HTTP with flat memory. Nothing of it is kept: a generator makes it, and a hash reads it. */
import { createHash } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pipeline } from "node:stream/promises"
import { afterAll, beforeAll, expect, it } from "vitest"
import { silentLog } from "../../src/log.ts"
import { type Server, startServer } from "../../src/server/server.ts"
import { openUmbra, type Umbra } from "../../src/umbra.ts"

const MIB = 1024 * 1024
const SIZE = 1000 * MIB
/** What streams and the garbage of their chunks may need: a twentieth of the content. */
const MOST_GROWTH = 50 * MIB

let folder: string
let umbra: Umbra
let server: Server

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "umbra-large-"))
  umbra = await openUmbra("memory:", { artifacts: { location: folder } })
  server = await startServer({ umbra, host: "127.0.0.1", port: 0, version: "0", log: silentLog })
  // What is loaded and allocated once is not part of the content.
  await throughLibrary(64 * MIB)
  await throughHttp(64 * MIB)
})

afterAll(async () => {
  await server.close()
  await umbra.close()
  rmSync(folder, { recursive: true, force: true })
})

function* pattern(bytes: number, seed: number): Generator<Buffer> {
  const chunk = Buffer.alloc(256 * 1024, seed)
  for (let at = 0; at < bytes; at += chunk.length) {
    // A chunk of its own, as a file or a socket would give.
    const next = Buffer.from(chunk)
    next.writeDoubleLE(at)
    yield next
  }
}

async function digest(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash("sha256")
  for await (const chunk of chunks) hash.update(chunk)
  return `sha256:${hash.digest("hex")}`
}

/** The highest resident memory while it runs, above that before. */
async function growth(act: () => Promise<void>): Promise<number> {
  globalThis.gc?.()
  const before = process.memoryUsage.rss()
  let most = before
  const timer = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss())
  }, 20)
  await act().finally(() => clearInterval(timer))
  return most - before
}

async function throughLibrary(bytes: number): Promise<void> {
  const { artifact, bytes: stored } = await umbra.artifacts.put("large", pattern(bytes, 1))
  expect(stored).toBe(bytes)
  expect(await digest(await umbra.artifacts.get(artifact))).toBe(artifact)
  await umbra.artifacts.remove(artifact)
}

async function throughHttp(bytes: number): Promise<void> {
  const upload = request(`${server.url}/artifacts`, { method: "POST" })
  const answered = new Promise<string>((resolve, reject) => {
    upload.on("error", reject)
    upload.on("response", async response => {
      let text = ""
      for await (const chunk of response) text += chunk
      resolve(text)
    })
  })
  await pipeline(pattern(bytes, 2), upload)
  const { artifact, bytes: stored } = JSON.parse(await answered)
  expect(stored).toBe(bytes)
  const response = await fetch(`${server.url}/artifacts/${artifact}`)
  expect(await digest(response.body as unknown as AsyncIterable<Uint8Array>)).toBe(artifact)
  await umbra.artifacts.remove(artifact)
}

it("1 GB through the library", async () => {
  expect(await growth(() => throughLibrary(SIZE))).toBeLessThan(MOST_GROWTH)
})

it("1 GB through HTTP", async () => {
  expect(await growth(() => throughHttp(SIZE))).toBeLessThan(MOST_GROWTH)
})
