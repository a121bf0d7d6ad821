import { createHash } from "node:crypto"
import { describe, expect, it } from "vitest"
import type { Journal } from "../../../src/journal/port/journal.ts"
import type { SessionRow, TokenLimits } from "../../../src/journal/port/registry.ts"
import { newId, type Stage } from "../fixture.ts"

const put = (journal: Journal, owner: string, name: string, hash: string) =>
  journal.putWorkflow({ owner, name, hash, definition: `{"hash":"${hash}"}`, createdAt: 5, pushedBy: "ada" })

export function registryContract(stage: () => Stage): void {
  describe("the registry", () => {
    it("S2 lists the latest version of each workflow of one owner, page by page", async () => {
      const { journal, peer } = stage()
      for (const hash of ["a", "b"]) await put(journal, "lister", "one", hash)
      for (const name of ["two", "three"]) await put(journal, "lister", name, "a")
      await put(journal, "not the lister", "four", "a")
      const list = (over: object) => peer.registry.listWorkflows({ owner: "lister", limit: 10, ...over })
      expect(await list({})).toEqual([
        { name: "one", version: 2, hash: "b", createdAt: 5, pushedBy: "ada" },
        { name: "three", version: 1, hash: "a", createdAt: 5, pushedBy: "ada" },
        { name: "two", version: 1, hash: "a", createdAt: 5, pushedBy: "ada" },
      ])
      expect((await list({ limit: 2 })).map(row => row.name)).toEqual(["one", "three"])
      expect((await list({ after: "one", limit: 1 })).map(row => row.name)).toEqual(["three"])
      expect(await list({ owner: "nobody" })).toEqual([])
    })

    it("J20 lists versions newest first and knows the latest without its definition", async () => {
      const { journal, peer } = stage()
      const key = { owner: "versions", name: "flow" }
      for (const hash of ["a", "b", "c"]) await put(journal, key.owner, key.name, hash)
      const versions = async (over: object) =>
        (await peer.registry.listVersions({ ...key, limit: 10, ...over })).map(row => row.version)
      expect(await versions({})).toEqual([3, 2, 1])
      expect(await versions({ before: 3, limit: 1 })).toEqual([2])
      expect(await peer.registry.readLatest(key)).toBe(3)
      expect(await peer.registry.readLatest({ ...key, owner: "another" })).toBeNull()
      expect(await peer.registry.hasVersion({ ...key, version: 2 })).toBe(true)
      expect(await peer.registry.hasVersion({ ...key, version: 4 })).toBe(false)
      expect(await peer.registry.hasVersion({ ...key, version: 2 ** 40 })).toBe(false)
    })

    it("J20 hides a deleted workflow, keeps its versions for running jobs, and continues counting", async () => {
      const { journal, peer } = stage()
      const key = { owner: "deleter", name: "flow" }
      for (const hash of ["a", "b"]) await put(journal, key.owner, key.name, hash)
      const remove = () => journal.registry.deleteWorkflow({ ...key, at: 9, by: "me" })
      expect(await remove()).toBe(true)
      expect(await remove()).toBe(false)
      expect(await peer.readWorkflow(key)).toBeNull()
      expect(await peer.registry.readLatest(key)).toBeNull()
      expect(await peer.registry.listWorkflows({ owner: key.owner, limit: 9 })).toEqual([])
      expect(await peer.registry.listVersions({ ...key, limit: 9 })).toEqual([])
      expect(await peer.readWorkflow({ ...key, version: 1 })).toMatchObject({ hash: "a", deletedAt: 9 })
      expect(await put(journal, key.owner, key.name, "b")).toMatchObject({ version: 3, unchanged: false })
      expect(await peer.readWorkflow(key)).toMatchObject({ version: 3, deletedAt: null })
      expect(await peer.registry.hasVersion({ ...key, version: 2 })).toBe(false)
    })

    it("J20 moves an alias to one version or a weighted set, and records who did and from where", async () => {
      const { journal, peer } = stage()
      const key = { owner: "aliaser", name: "flow", alias: "stable" }
      for (const hash of ["a", "b"]) await put(journal, key.owner, key.name, hash)
      const one = [{ version: 1, weight: 1 }]
      const both = [
        { version: 1, weight: 9 },
        { version: 2, weight: 1 },
      ]
      const move = (targets: typeof one, at: number, by: string) =>
        journal.registry.putAlias({ ...key, targets, at, by })
      expect(await move(one, 10, "ada")).toEqual({ moved: true, missing: [] })
      expect(await move(one, 11, "bob")).toEqual({ moved: false, missing: [] })
      expect(await move([...both].reverse(), 12, "bob")).toEqual({ moved: true, missing: [] })
      const row = { alias: "stable", targets: both, movedAt: 12, movedBy: "bob" }
      expect(await peer.registry.readAlias(key)).toEqual(row)
      expect(await peer.registry.listAliases(key)).toEqual([row])
      expect(await peer.registry.readAlias({ ...key, owner: "another" })).toBeNull()
      expect(await peer.registry.listAliasMoves({ ...key, limit: 9 })).toEqual([
        { at: 12, by: "bob", from: one, to: both },
        { at: 10, by: "ada", from: null, to: one },
      ])
      expect(await peer.registry.listAliasMoves({ ...key, limit: 1 })).toHaveLength(1)
      const remove = (at: number) => peer.registry.deleteAlias({ ...key, at, by: "cy" })
      expect(await remove(13)).toBe(true)
      expect(await remove(14)).toBe(false)
      expect(await journal.registry.readAlias(key)).toBeNull()
      expect(await journal.registry.listAliasMoves({ ...key, limit: 1 })).toEqual([
        { at: 13, by: "cy", from: both, to: null },
      ])
      expect(await move(one, 15, "ada")).toEqual({ moved: true, missing: [] })
    })

    it("J20 refuses an alias to versions that are not there, and removes the aliases of a deleted workflow", async () => {
      const { journal, peer } = stage()
      const key = { owner: "refuser", name: "flow", alias: "stable" }
      await put(journal, key.owner, key.name, "a")
      const move = (...versions: number[]) =>
        journal.registry.putAlias({
          ...key,
          targets: versions.map(version => ({ version, weight: 1 })),
          at: 1,
          by: "me",
        })
      expect(await move(1, 2, 3)).toEqual({ moved: false, missing: [2, 3] })
      expect(await peer.registry.readAlias(key)).toBeNull()
      await move(1)
      await journal.registry.deleteWorkflow({ ...key, at: 2, by: "you" })
      expect(await peer.registry.listAliases(key)).toEqual([])
      expect(await peer.registry.listAliasMoves({ ...key, limit: 1 })).toEqual([
        { at: 2, by: "you", from: [{ version: 1, weight: 1 }], to: null },
      ])
      expect(await move(1)).toEqual({ moved: false, missing: [1] })
    })

    it("J20 moves an alias from where the other mover left it when two move it at once", async () => {
      const { journal, peer } = stage()
      const key = { owner: "racer", name: "flow", alias: "stable" }
      for (const hash of ["a", "b", "c", "d"]) await put(journal, key.owner, key.name, hash)
      await Promise.all(
        [1, 2, 3, 4].map((version, n) =>
          (n % 2 ? journal : peer).registry.putAlias({
            ...key,
            targets: [{ version, weight: 1 }],
            at: n,
            by: "me",
          }),
        ),
      )
      const moves = (await peer.registry.listAliasMoves({ ...key, limit: 9 })).reverse()
      expect(moves).toHaveLength(4)
      expect(moves.map(({ from }) => from)).toEqual([null, ...moves.slice(0, 3).map(({ to }) => to)])
      expect((await peer.registry.readAlias(key))?.targets).toEqual(moves.at(-1)?.to)
    })

    it("keeps pauses of workflows per owner until all their jobs are resumed", async () => {
      const { journal, peer } = stage()
      const key = { owner: "pauser", name: "flow" }
      const own = async () => (await peer.registry.listPauses()).filter(({ owner }) => owner === key.owner)
      const pause = { ...key, at: 5, by: "ada", reason: "prices" }
      expect(await journal.registry.resumeWorkflow({ ...key, at: 4 })).toBe(false)
      expect(await journal.registry.pauseWorkflow(pause)).toBe(true)
      expect(await peer.registry.pauseWorkflow({ ...pause, at: 6, by: null, reason: null })).toBe(false)
      const paused = { ...key, pausedAt: 5, pausedBy: "ada", reason: "prices", resumedAt: null }
      expect(await own()).toEqual([paused])
      expect(await peer.registry.resumeWorkflow({ ...key, at: 7 })).toBe(true)
      expect(await peer.registry.resumeWorkflow({ ...key, at: 8 })).toBe(false)
      expect(await own()).toEqual([{ ...paused, resumedAt: 7 }])
      // Paused once more before all jobs were resumed: the end of the first pause does not remove the second.
      expect(await journal.registry.pauseWorkflow({ ...pause, at: 9, by: null, reason: null })).toBe(true)
      await journal.registry.settlePause({ ...key, resumedAt: 7 })
      expect(await own()).toEqual([{ ...key, pausedAt: 9, pausedBy: null, reason: null, resumedAt: null }])
      await journal.registry.resumeWorkflow({ ...key, at: 10 })
      await journal.registry.settlePause({ ...key, resumedAt: 10 })
      expect(await own()).toEqual([])
    })

    it("S3 keeps tokens by their hash until they are revoked", async () => {
      const { journal, peer } = stage()
      const token = (text: string, owner: string, limits: Partial<TokenLimits> = {}) => ({
        id: newId(),
        hash: createHash("sha256").update(text).digest("hex"),
        owner,
        scopes: ["read", "submit"],
        lastFour: text.slice(-4),
        createdAt: 7,
        rateLimit: null,
        maxUnfinishedJobs: null,
        maxBodyBytes: null,
        ...limits,
      })
      const limited = { rateLimit: 0.5, maxUnfinishedJobs: 3, maxBodyBytes: 2 ** 28 }
      const [first, second, other] = [token("one", "a1"), token("two", "a1", limited), token("three", "a2")]
      for (const row of [first, second, other]) await journal.registry.putToken(row)
      await journal.registry.putToken(first)
      expect(await peer.registry.readToken(first.hash)).toEqual({ ...first, revokedAt: null })
      expect(await peer.registry.readToken("0".repeat(64))).toBeNull()
      expect(await peer.registry.revokeToken({ id: first.id, at: 8 })).toBe(true)
      expect(await peer.registry.revokeToken({ id: first.id, at: 9 })).toBe(true)
      expect(await peer.registry.revokeToken({ id: newId(), at: 9 })).toBe(false)
      expect(await journal.registry.readToken(first.hash)).toBeNull()
      expect(await journal.registry.listTokens({ owner: "a1" })).toEqual([
        { ...first, revokedAt: 8 },
        { ...second, revokedAt: null },
      ])
      const page = async (after?: string) =>
        (await journal.registry.listTokens({ owner: "a1", limit: 1, ...(after && { after }) })).map(
          ({ id }) => id,
        )
      expect([await page(), await page(first.id), await page(second.id)]).toEqual([
        [first.id],
        [second.id],
        [],
      ])
      const all = (await journal.registry.listTokens()).map(({ id }) => id)
      expect(all).toEqual(expect.arrayContaining([first.id, second.id, other.id]))
    })

    it("finds a session until it expires, is deleted, or its token is revoked", async () => {
      const { journal, peer } = stage()
      const token = {
        id: newId(),
        hash: newId(),
        owner: "s1",
        scopes: ["read"],
        lastFour: "abcd",
        createdAt: 7,
        rateLimit: 0.5,
        maxUnfinishedJobs: 3,
        maxBodyBytes: 1000,
      }
      const { rateLimit, maxUnfinishedJobs, maxBodyBytes } = token
      await journal.registry.putToken(token)
      const session = (over: Partial<SessionRow> = {}) => ({
        hash: newId(),
        tokenId: token.id,
        subject: `token ${token.id}`,
        owner: "s1",
        scopes: ["read"],
        createdAt: 100,
        expiresAt: 200,
        ...over,
      })
      const put = (row: SessionRow, keep = 100) => journal.registry.putSession({ ...row, keep })
      const read = (row: SessionRow, at: number) => peer.registry.readSession({ hash: row.hash, at })
      const [first, second] = [session(), session()]
      const byJwt = session({ tokenId: null, subject: "jwt ada", scopes: [] })
      for (const row of [first, first, second, byJwt]) await put(row)
      const limits = { rateLimit, maxUnfinishedJobs, maxBodyBytes }
      expect(await read(first, 199)).toEqual({ ...first, ...limits })
      expect(await read(byJwt, 199)).toEqual({
        ...byJwt,
        rateLimit: null,
        maxUnfinishedJobs: null,
        maxBodyBytes: null,
      })
      expect(await read(first, 200)).toBeNull()
      expect(await read(session(), 100)).toBeNull()
      expect(await read(session({ tokenId: newId() }), 100)).toBeNull()
      await peer.registry.deleteSession(first.hash)
      await peer.registry.deleteSession(first.hash)
      expect(await read(first, 150)).toBeNull()
      expect(await read(second, 150)).not.toBeNull()
      await journal.registry.revokeToken({ id: token.id, at: 120 })
      expect(await read(second, 150)).toBeNull()
      expect(await read(byJwt, 150)).not.toBeNull()
    })

    it("keeps the newest sessions of a subject, and removes expired ones of all", async () => {
      const { journal, peer } = stage()
      const subject = `jwt ${newId()}`
      const session = (n: number, name = subject) => ({
        hash: newId(),
        tokenId: null,
        subject: name,
        owner: "s2",
        scopes: ["read"],
        createdAt: 1000 + n,
        expiresAt: 2000 + n,
        keep: 3,
      })
      const rows = [1, 2, 3, 4, 5].map(n => session(n))
      const other = session(0, `jwt ${newId()}`)
      for (const row of [other, ...rows]) await journal.registry.putSession(row)
      const found = await Promise.all(
        [other, ...rows].map(({ hash }) => peer.registry.readSession({ hash, at: 1500 })),
      )
      expect(found.map(row => row !== null)).toEqual([true, false, false, true, true, true])
      await journal.registry.putSession({ ...session(0, `jwt ${newId()}`), createdAt: 2003, expiresAt: 3000 })
      // Read at a time before the end of each: what is missing was removed.
      const left = await Promise.all(
        [other, ...rows].map(({ hash }) => peer.registry.readSession({ hash, at: 1500 })),
      )
      expect(left.map(row => row !== null)).toEqual([false, false, false, false, true, true])
    })
  })
}
