import { describe, expect, it } from "vitest"
import { heldArtifact } from "../../../src/core/artifacts.ts"
import { batch, fact, type Held, hold, newId, newJob, type Stage } from "../fixture.ts"

const hashOf = (digit: string) => `sha256:${digit.repeat(64)}`

export function artifactsContract(stage: () => Stage): void {
  const store = () => stage().journal.artifacts
  let keys = 0
  const artifact = (owner: string, hash: string, over: object = {}) => ({
    ...{ owner, hash, key: `${owner}/${++keys}`, bytes: 7, name: "a.txt", type: "text/plain", at: 100 },
    ...over,
  })

  /** An ended job that refers to these artifacts. */
  async function holder(held: Held, owner: string, hashes: readonly string[], counter = 1) {
    const { journal } = stage()
    const job = newJob(held, counter, { owner, status: "COMPLETED", finishedAt: 10 })
    const { partition } = held
    const rows = hashes.map(hash => ({ partition, by: job.id, held: heldArtifact(owner, hash) }))
    await journal.append(
      batch(held, { newJobs: [job], facts: [fact(held, counter, { jobId: job.id })], held: rows }),
    )
    return job
  }

  /** Of one owner: other tests of this store have rows as well. */
  async function markAll(owner: string, before: number, at: number, more: object = {}) {
    const found = []
    for (let after = null; ; ) {
      const { marked, next } = await store().mark({
        ...{ before, claimedBefore: before, at, after, limit: 3, ...more },
      })
      found.push(...marked.filter(row => row.owner === owner).map(({ hash }) => hash))
      if (next === null) return found
      after = next as never
    }
  }

  describe("artifacts", () => {
    it("have one row for each owner and hash, with the key of the first content", async () => {
      const [one, two] = [newId(), newId()]
      const first = artifact(one, hashOf("a"))
      const row = {
        ...{ owner: one, hash: hashOf("a"), key: first.key, bytes: 7, name: "a.txt", type: "text/plain" },
        ...{ createdAt: 100, lastPutAt: 100, markedAt: null, removedAt: null },
      }
      expect(await store().put(first)).toEqual(row)
      expect(await store().put(first)).toEqual(row)
      const again = artifact(one, hashOf("a"), { at: 200, name: "b.txt", type: "text/x" })
      expect(await store().put(again)).toEqual({ ...row, lastPutAt: 200, name: "b.txt", type: "text/x" })
      const unnamed = artifact(one, hashOf("a"), {
        ...{ at: 200, name: "artifact", type: "application/octet-stream" },
      })
      expect(await store().put(unnamed)).toMatchObject({ name: "b.txt", type: "text/x" })
      const foreign = artifact(two, hashOf("a"))
      expect(await store().put(foreign)).toMatchObject({ owner: two, key: foreign.key })
      expect(await stage().peer.artifacts.read({ owner: one, hash: hashOf("a") })).toMatchObject({
        key: first.key,
      })
      expect(await store().read({ owner: one, hash: hashOf("b") })).toBeNull()
      expect(await store().knownKeys([first.key, again.key, foreign.key, "nothing"])).toEqual(
        expect.arrayContaining([first.key, foreign.key]),
      )
      expect(await store().knownKeys([again.key, "nothing"])).toEqual([])
      expect(await store().knownKeys([])).toEqual([])
    })

    it("keep large numbers and unusual owners", async () => {
      const owner = `o 'ö" ${newId()}`
      const bytes = 2 ** 44
      await store().put(artifact(owner, hashOf("a"), { bytes, name: "ü'\"{}, \\.png", at: 2 ** 42 }))
      expect(await store().read({ owner, hash: hashOf("a") })).toMatchObject({
        ...{ owner, bytes, name: "ü'\"{}, \\.png", lastPutAt: 2 ** 42 },
      })
      await store().put(artifact(owner, hashOf("b"), { bytes }))
      expect(await store().usedBytes(owner)).toBe(2 * bytes)
      expect(await store().usedBytes(newId())).toBe(0)
      const job = await holder(await hold(stage().journal), owner, [hashOf("a")])
      const found = await store().list({ owner, jobId: job.id, limit: 10 })
      expect(found.map(({ hash }) => hash)).toEqual([hashOf("a")])
      expect(await store().list({ owner: "o", jobId: job.id, limit: 10 })).toEqual([])
    })

    it("are listed in pages, by owner or by job", async () => {
      const owner = newId()
      const hashes = ["5", "1", "3"].map(hashOf)
      for (const hash of hashes) await store().put(artifact(owner, hash))
      const list = async (query: object) =>
        (await store().list({ owner, limit: 10, ...query })).map(({ hash }) => hash)
      expect(await list({})).toEqual([...hashes].sort())
      expect(await list({ limit: 2 })).toEqual([hashOf("1"), hashOf("3")])
      expect(await list({ after: hashOf("3") })).toEqual([hashOf("5")])
      const job = await holder(await hold(stage().journal), owner, [hashOf("5"), hashOf("3")])
      expect(await list({ jobId: job.id })).toEqual([hashOf("3"), hashOf("5")])
      expect(await list({ jobId: job.id, after: hashOf("3") })).toEqual([hashOf("5")])
      expect(await list({ jobId: newId() })).toEqual([])
    })

    it("are marked if nothing refers to them and they were neither put nor claimed lately", async () => {
      const { journal } = stage()
      const owner = newId()
      const [used, put, claimed, free, old] = ["1", "2", "3", "4", "5"].map(hashOf) as [string, ...string[]]
      for (const hash of [used, put, claimed, free, old]) await store().put(artifact(owner, hash!))
      const held = await hold(journal)
      const job = await holder(held, owner, [used])
      await store().put(artifact(owner, put!, { at: 1000 }))
      expect(await store().claim({ owner, hashes: [claimed!, hashOf("9")], at: 1000 })).toEqual([claimed])
      expect(await markAll(owner, 500, 2000, { dryRun: true })).toEqual([free, old])
      expect(await markAll(owner, 1001, 2000, { dryRun: true, claimedBefore: 1000 })).toEqual([
        put,
        free,
        old,
      ])
      expect(await store().read({ owner, hash: free! })).toMatchObject({ markedAt: null })
      expect(await markAll(owner, 500, 2000)).toEqual([free, old])
      expect(await markAll(owner, 500, 3000)).toEqual([])
      // Its content is about to be removed: it cannot be claimed. A put gives it other content.
      expect(await store().claim({ owner, hashes: [free!, old!], at: 1000 })).toEqual([])
      const revived = artifact(owner, free!, { at: 2500 })
      expect(await store().put(revived)).toMatchObject({ key: revived.key, markedAt: null })
      const marked = async (before: number) =>
        (await store().marked({ before, limit: 100 })).filter(row => row.owner === owner)
      expect(await marked(2000)).toEqual([])
      const due = await marked(2001)
      expect(due).toMatchObject([{ hash: old, markedAt: 2000 }])
      await store().forget({ ...due[0]!, key: "another" })
      expect(await store().read({ owner, hash: old! })).not.toBeNull()
      await store().forget(due[0]!)
      expect(await store().read({ owner, hash: old! })).toBeNull()
      // A row with new content is not forgotten with the old.
      await store().forget({ owner, hash: free!, key: revived.key })
      expect(await store().read({ owner, hash: free! })).toMatchObject({ key: revived.key })
      // The references of a job go with it.
      await journal.purge({ fences: [held], jobIds: [job.id], before: 40, limit: 100 })
      expect(await markAll(owner, 500, 4000)).toEqual([used])
    })

    it("are claimed once while a claim is recent", async () => {
      const owner = newId()
      const [first, second] = [artifact(owner, hashOf("1")), artifact(owner, hashOf("2"))]
      for (const each of [first, second]) await store().put(each)
      const hashes = [first.hash, second.hash]
      const claim = async (given: readonly string[], at: number, staleBefore: number) =>
        (await store().claim({ owner, hashes: given, at, staleBefore })).sort()
      const remove = (hash: string, claimedBefore: number) =>
        store().remove({ owner, hash, at: 2000, claimedBefore, force: false })
      expect(await claim([...hashes, hashOf("3")], 1000, 1000)).toEqual(hashes)
      expect(await claim([first.hash], 1500, 1000)).toEqual([first.hash])
      expect(await claim([...hashes, hashOf("3")].slice(1), 1500, 1001)).toEqual([second.hash])
      expect(await remove(second.hash, 1499)).toMatchObject({ outcome: "referenced" })
      expect(await remove(first.hash, 1000)).toMatchObject({ outcome: "removed" })
      expect(await claim(hashes, 1500, 1000)).toEqual([second.hash])
    })

    it("are removed if nothing refers to them; by force they leave a tombstone", async () => {
      const owner = newId()
      const [free, used] = [artifact(owner, hashOf("1")), artifact(owner, hashOf("2"))]
      await store().put(free)
      await store().put(used)
      await holder(await hold(stage().journal), owner, [used.hash])
      const remove = (hash: string, over: object = {}) =>
        store().remove({ owner, hash, at: 900, claimedBefore: 500, force: false, ...over })
      expect(await remove(hashOf("3"))).toEqual({ outcome: "missing", key: null })
      expect(await remove(used.hash)).toEqual({ outcome: "referenced", key: null })
      await store().claim({ owner, hashes: [free.hash], at: 501 })
      expect(await remove(free.hash)).toEqual({ outcome: "referenced", key: null })
      expect(await remove(free.hash, { claimedBefore: 501 })).toEqual({ outcome: "removed", key: free.key })
      expect(await store().read(free)).toBeNull()
      expect(await remove(used.hash, { force: true })).toEqual({ outcome: "removed", key: used.key })
      expect(await store().read(used)).toMatchObject({ key: null, removedAt: 900 })
      expect(await store().claim({ owner, hashes: [used.hash], at: 1000 })).toEqual([])
      expect(await store().usedBytes(owner)).toBe(0)
      const again = artifact(owner, used.hash, { at: 1000 })
      expect(await store().put(again)).toMatchObject({ key: again.key, removedAt: null, createdAt: 100 })
      expect(await store().claim({ owner, hashes: [used.hash], at: 1000 })).toEqual([used.hash])
    })
  })
}
