import { mkdtemp, readdir, rm, utimes } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openFolderStore } from "../../src/artifacts/folder-store.ts"
import { freshBucket } from "./bucket.ts"
import { contentStoreContract } from "./contract.ts"

contentStoreContract("a folder", async () => {
  const folder = await mkdtemp(join(tmpdir(), "umbra-content-"))
  const store = openFolderStore(folder)
  const files = async (isIncoming: boolean) => {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true })
    const all = entries.filter(entry => entry.isFile()).map(entry => join(entry.parentPath, entry.name))
    return all.filter(file => file.includes(".incoming") === isIncoming).sort()
  }
  return {
    store,
    environment: { UMBRA_ARTIFACTS: folder },
    visible: () => files(false),
    unfinished: () => files(true),
    async listLater() {
      const yesterday = Date.now() / 1000 - 25 * 3600
      for (const file of await files(true)) await utimes(file, yesterday, yesterday)
      return store.list({ limit: 10 })
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  }
})

contentStoreContract("a bucket", async () => {
  const bucket = await freshBucket()
  return {
    store: bucket.store(),
    environment: { ...bucket.environment, UMBRA_ARTIFACTS: bucket.location },
    visible: bucket.keys,
    unfinished: bucket.uploads,
    async listLater() {
      // Every upload is older than that.
      const later = bucket.store({ abandonedMs: -60_000 })
      await later.list({ limit: 10 })
      await later.close()
    },
    remove: bucket.remove,
  }
})
