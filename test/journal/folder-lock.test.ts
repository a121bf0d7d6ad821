import { readdir, readFile, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { type FolderLock, lockFolder, refuseOtherMachine } from "../../src/journal/folder-lock.ts"
import { ownIdentity } from "../../src/process-identity.ts"
import { freshFolder } from "./folder.ts"

const quick = { onLost: () => {}, beatMs: 20, watchMs: 300 }

async function lock(folder: string, options = quick): Promise<FolderLock> {
  const taken = await lockFolder(folder, options)
  onTestFinished(() => taken.release())
  return taken
}

/** A lock left by a process that differs from this one in what the test says. */
async function leaveLock(folder: string, differs: object): Promise<string> {
  const path = join(folder, "lock.4")
  await writeFile(path, JSON.stringify({ ...ownIdentity(), since: "2026-01-01T00:00:00.000Z", ...differs }))
  return path
}

const locks = async (folder: string) => (await readdir(folder)).filter(name => name.startsWith("lock"))

describe("the lock on a folder", () => {
  it("is one process's until released, and its number rises", async () => {
    const folder = await freshFolder()
    const first = await lock(folder)
    await expect(lock(folder)).rejects.toMatchObject({ code: "E503", details: { pid: process.pid } })
    await first.release()
    await lock(folder)
    expect(await locks(folder)).toEqual(["lock.2"])
  })

  it("of a dead process is taken over at once: its pid is gone, or is another process's by now", async () => {
    for (const dead of [{ pid: 2 ** 22 + 1 }, { started: "1" }, { released: true }]) {
      const folder = await freshFolder()
      await leaveLock(folder, dead)
      await lock(folder, { ...quick, watchMs: 1e9 })
      expect(await locks(folder)).toEqual(["lock.5"])
    }
  })

  it("of a process that cannot be seen from here holds while it beats, and no longer", async () => {
    for (const unseen of [{ host: "elsewhere" }, { boot: "another" }, { namespace: "pid:[1]" }]) {
      const folder = await freshFolder()
      const path = await leaveLock(folder, unseen)
      let isAlive = true
      const beating = (async () => {
        for (let beat = 1; isAlive; beat++) {
          await utimes(path, beat, beat)
          await new Promise(resolve => setTimeout(resolve, quick.beatMs))
        }
      })()
      // Long enough for a beat on any machine; it is over with the first.
      await expect(lock(folder, { ...quick, watchMs: 20_000 })).rejects.toMatchObject({
        code: "E503",
        details: { since: "2026-01-01T00:00:00.000Z" },
      })
      // Whoever only reads shares memory with the holder, in a container of the same machine too.
      const beside = refuseOtherMachine(folder, 20_000)
      if ("boot" in unseen) await expect(beside).rejects.toMatchObject({ code: "E503" })
      else await beside
      isAlive = false
      await beating
      await refuseOtherMachine(folder, quick.watchMs)
      await lock(folder)
    }
  })

  it("that was never written to the end is taken over after a while", async () => {
    const folder = await freshFolder()
    await writeFile(join(folder, "lock.1"), "")
    await lock(folder)
    expect(await locks(folder)).toEqual(["lock.2"])
  })

  it("goes to exactly one of many starters that see the same dead one", async () => {
    for (let round = 0; round < 10; round++) {
      const folder = await freshFolder()
      await leaveLock(folder, { started: "1" })
      const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => lock(folder)))
      const lost = outcomes.flatMap(outcome => (outcome.status === "rejected" ? [outcome.reason.code] : []))
      expect(lost).toEqual(Array(7).fill("E503"))
    }
  })

  it("notifies its holder when another process has taken it", async () => {
    const folder = await freshFolder()
    let lost = 0
    await lock(folder, { ...quick, onLost: () => lost++ })
    await writeFile(join(folder, "lock.9"), "{}")
    await expect.poll(() => lost).toBe(1)
  })

  it("says who holds it, for others to read", async () => {
    const folder = await freshFolder()
    await lock(folder)
    const holder = JSON.parse(await readFile(join(folder, "lock.1"), "utf8"))
    expect(holder).toMatchObject(ownIdentity())
    expect(Number.isNaN(Date.parse(holder.since))).toBe(false)
  })
})
