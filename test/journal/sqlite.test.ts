import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openFolder } from "../../src/journal/sqlite/folder.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { journalContract } from "./contract.ts"

journalContract("SQLite in memory", async () => {
  const journal = openMemory()
  return { journal, peer: journal, close: () => journal.close() }
})

journalContract("SQLite in memory shared by several processes", async () => {
  const store = createMemoryStore()
  const [journal, peer] = [openMemory(store), openMemory(store)]
  return { journal, peer, close: async () => void (await Promise.all([journal.close(), peer.close()])) }
})

journalContract("SQLite in a folder", async () => {
  const folder = await mkdtemp(join(tmpdir(), "umbra-journal-"))
  const journal = await openFolder(folder)
  const close = async () => {
    await journal.close()
    await rm(folder, { recursive: true, force: true })
  }
  return { journal, peer: journal, close }
})
