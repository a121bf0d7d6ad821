import { describe, expect, it } from "vitest"
import type { NewWorkflow } from "../../../src/journal/port/journal.ts"
import { newId, type Stage } from "../fixture.ts"

const workflow = (name: string, hash: string, createdAt = 1): NewWorkflow => ({
  owner: "author",
  name,
  hash,
  definition: `{"z":1,"hash":"${hash}"}`,
  createdAt,
})

export function workflowsContract(stage: () => Stage): void {
  describe("workflows and keys", () => {
    it("J20 number their versions; unchanged content is not a new one, an older content is", async () => {
      const { journal, peer } = stage()
      const put = async (hash: string) => {
        const { version, unchanged } = await journal.putWorkflow(workflow("versions", hash))
        return { version, unchanged }
      }
      expect(await put("a")).toEqual({ version: 1, unchanged: false })
      expect(await put("a")).toEqual({ version: 1, unchanged: true })
      expect(await put("b")).toEqual({ version: 2, unchanged: false })
      expect(await put("a")).toEqual({ version: 3, unchanged: false })
      const key = { owner: "author", name: "versions" }
      expect(await peer.readWorkflow(key)).toMatchObject({ ...workflow("versions", "a"), version: 3 })
      expect(await peer.readWorkflow({ ...key, version: 2 })).toMatchObject({
        ...workflow("versions", "b"),
        version: 2,
      })
      expect(await peer.readWorkflow({ ...key, version: 4 })).toBeNull()
      expect(await peer.readWorkflow({ ...key, owner: "another" })).toBeNull()
    })

    it("J20 keep who made an unchanged version first", async () => {
      const { journal } = stage()
      await journal.putWorkflow(workflow("first", "a", 1))
      expect(await journal.putWorkflow(workflow("first", "a", 2))).toMatchObject({
        createdAt: 1,
        unchanged: true,
      })
    })

    it("keep by whom and under which rules they were pushed; 0.1 recorded neither", async () => {
      const { journal, peer } = stage()
      const key = { owner: "author", name: "pushed" }
      const pushed = { ...workflow("pushed", "b"), pushedBy: "token 7", rules: 2 }
      expect(await journal.putWorkflow(workflow("pushed", "a"))).toMatchObject({ pushedBy: null, rules: 1 })
      expect(await journal.putWorkflow(pushed)).toMatchObject({ pushedBy: "token 7", rules: 2 })
      expect(await journal.putWorkflow({ ...pushed, pushedBy: "jwt ada", rules: 3 })).toMatchObject({
        ...{ unchanged: true, pushedBy: "token 7", rules: 2 },
      })
      expect(await peer.readWorkflow({ ...key, version: 1 })).toMatchObject({ pushedBy: null, rules: 1 })
      expect(await peer.readWorkflow(key)).toMatchObject({ pushedBy: "token 7", rules: 2 })
      const versions = await peer.registry.listVersions({ ...key, limit: 9 })
      expect(versions.map(({ pushedBy }) => pushedBy)).toEqual(["token 7", null])
      const found = await peer.registry.listWorkflows({ owner: "author", limit: 1, after: "pushe" })
      expect(found).toMatchObject([{ name: "pushed", version: 2, pushedBy: "token 7" }])
    })

    it("are a new version if the text differs although the hash is the same", async () => {
      const { journal } = stage()
      const one = workflow("text", "a")
      await journal.putWorkflow(one)
      const other = { ...one, definition: '{"z":1,"hash":"a","written":true}' }
      expect(await journal.putWorkflow(other)).toMatchObject({ version: 2, unchanged: false })
      expect(await journal.putWorkflow(other)).toMatchObject({ version: 2, unchanged: true })
    })

    it("J20 put at once with different content get different versions, with the same content one", async () => {
      const { journal, peer } = stage()
      const different = Array.from({ length: 12 }, (_, n) =>
        (n % 2 ? journal : peer).putWorkflow(workflow("rush", `hash-${n}`)),
      )
      const versions = (await Promise.all(different)).map(row => row.version).sort((a, b) => a - b)
      expect(versions).toEqual(Array.from({ length: 12 }, (_, n) => n + 1))
      const same = Array.from({ length: 8 }, (_, n) =>
        (n % 2 ? journal : peer).putWorkflow(workflow("same", "hash")),
      )
      const rows = await Promise.all(same)
      expect(rows.map(row => row.version)).toEqual(Array(8).fill(1))
      expect(rows.filter(row => !row.unchanged)).toHaveLength(1)
    })

    it("S2 give an idempotency key to the first request and return the same owner to all others", async () => {
      const { journal, peer } = stage()
      const claims = Array.from({ length: 10 }, (_, n) => ({
        owner: "claimer",
        key: "order 7",
        jobId: newId(),
        fingerprint: `print-${n}`,
        createdAt: 5_000_000 + n,
      }))
      const winners = await Promise.all(claims.map((claim, n) => (n % 2 ? journal : peer).claimKey(claim)))
      expect(new Set(winners.map(winner => winner.jobId)).size).toBe(1)
      expect(claims).toContainEqual(winners[0])
      expect(await journal.claimKey({ ...claims[3]!, jobId: newId() })).toEqual(winners[0])
      const other = { ...claims[0]!, owner: "another claimer" }
      expect(await journal.readKey({ owner: other.owner, key: other.key })).toBeNull()
      expect(await journal.claimKey(other)).toEqual(other)
      for (const claim of [winners[0]!, other])
        expect(await peer.readKey({ owner: claim.owner, key: claim.key })).toEqual(claim)
    })
  })
}
