import { describe, expect, it } from "vitest"
import { JournalUnavailableError } from "../../src/journal/errors.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { journalContract } from "./contract.ts"
import { batch, fact, hold } from "./fixture.ts"

journalContract("memory", async () => {
  const journal = openMemory()
  return { journal, peer: journal, close: () => journal.close() }
})

journalContract("memory shared by several processes", async () => {
  const store = createMemoryStore()
  const [journal, peer] = [openMemory(store), openMemory(store)]
  return { journal, peer, close: async () => void (await Promise.all([journal.close(), peer.close()])) }
})

describe("memory", () => {
  it("is exclusive unless a store is shared, and never durable", () => {
    expect(openMemory().capabilities).toMatchObject({ exclusive: true, durable: false, partitions: 64 })
    const store = createMemoryStore({ partitions: 4 })
    expect(openMemory(store).capabilities).toMatchObject({ exclusive: false, partitions: 4 })
  })

  it("keeps what a closed process has written for the others", async () => {
    const store = createMemoryStore()
    const [first, second] = [openMemory(store), openMemory(store)]
    const held = await hold(first)
    const stored = fact(held, 1)
    await first.append(batch(held, { facts: [stored] }))
    await first.close()
    await expect(first.readFacts([stored.jobId])).rejects.toBeInstanceOf(JournalUnavailableError)
    expect(await second.readFacts([stored.jobId])).toHaveLength(1)
  })
})
