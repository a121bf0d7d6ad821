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
