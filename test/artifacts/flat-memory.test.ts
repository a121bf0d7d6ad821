/** S9: content of any size passes with flat memory. In a process of its own: it measures what the process uses. */
import { createHash } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import type { ContentStore } from "../../src/artifacts/content-store.ts"
import { openFolderStore } from "../../src/artifacts/folder-store.ts"
import { freshBucket } from "./bucket.ts"
import { pattern } from "./content.ts"

const MB = 1024 * 1024
const GB = 1024 * MB

const inFolder = async (): Promise<ContentStore> => {
  const folder = await mkdtemp(join(tmpdir(), "umbra-content-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return openFolderStore(folder)
}

const inBucket = async (): Promise<ContentStore> => {
  const bucket = await freshBucket()
  onTestFinished(bucket.remove)
  return bucket.store()
}

it.each([
  ["a folder", inFolder],
  ["a bucket", inBucket],
])("1 GB goes to %s and comes back with flat memory", async (_name, open) => {
  const store = await open()
  const chunk = pattern(256 * 1024)
  const memory = { first: 0, most: 0 }
  const look = () => {
    memory.most = Math.max(memory.most, process.memoryUsage.rss())
  }
  const body = async function* (length: number) {
    for (let sent = 0; sent < length; sent += chunk.length) {
      look()
      yield chunk
    }
  }
  // What the code, the connections and the first parts need.
  await store.remove((await store.write("warm", body(64 * MB), { maxBytes: GB })).key)
  memory.first = process.memoryUsage.rss()
  const { key, bytes, hash } = await store.write("large", body(GB), { maxBytes: GB })
  expect(bytes).toBe(GB)
  const seen = createHash("sha256")
  for await (const part of await store.read(key)) {
    look()
    seen.update(part)
  }
  expect(`sha256:${seen.digest("hex")}`).toBe(hash)
  expect((memory.most - memory.first) / MB).toBeLessThan(128)
  await store.remove(key)
  await store.close()
})
