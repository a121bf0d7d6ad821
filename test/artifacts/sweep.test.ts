/** How long content lives, and sweeps that race with puts. */
import { createHash } from "node:crypto"
import { mkdtempSync, readdirSync, rmSync, utimesSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { Artifacts } from "../../src/artifacts/artifacts.ts"
import { bodyChunks } from "../../src/artifacts/body.ts"
import type { ContentStore } from "../../src/artifacts/content-store.ts"
import { openFolderStore } from "../../src/artifacts/folder-store.ts"
import { type ArtifactSettings, artifactSettings } from "../../src/artifacts/settings.ts"
import { openJournal } from "../../src/journal/open.ts"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { openUmbra } from "../../src/umbra.ts"
import { flow, handler, openOn, until } from "../engine/stage.ts"
import { freshDatabase } from "../support/services.ts"

const HOUR = 3600_000
const sha = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), "umbra-sweep-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function filesIn(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries
    .filter(entry => entry.isFile())
    .map(({ parentPath, path, name }) => join(parentPath ?? path, name))
}

/** With a clock that the test moves. Content has the times of the real one, unless `hasTimes`. */
async function stage(kind: string, hasTimes = false, settings: Partial<ArtifactSettings> = {}) {
  const database = kind === "SQLite" ? null : await freshDatabase()
  if (database !== null) onTestFinished(database.drop)
  const journal = await openJournal(database?.url ?? "memory:")
  onTestFinished(() => journal.close())
  const folder = temporary()
  const clock = { at: Date.now() }
  const store = openFolderStore(folder)
  const content = hasTimes ? timed(store, clock) : store
  const artifacts = new Artifacts({
    ...{
      rows: journal.artifacts,
      content,
      location: folder,
      settings: artifactSettings(settings),
      now: () => clock.at,
    },
  })
  return { artifacts, clock, content, journal, files: () => filesIn(folder) }
}

/** Content has the times of the clock. */
function timed(store: ContentStore, clock: { readonly at: number }): ContentStore {
  const written = new Map<string, number>()
  return {
    label: store.label,
    write: async (...given) => {
      const found = await store.write(...given)
      written.set(found.key, clock.at)
      return found
    },
    read: (...given) => store.read(...given),
    size: key => store.size(key),
    remove: key => store.remove(key),
    list: async options =>
      (await store.list(options)).map(each => ({
        ...each,
        written: new Date(written.get(each.key) ?? clock.at),
      })),
    close: () => store.close(),
  }
}

describe.each(["SQLite", "PostgreSQL"])("content that nothing refers to, on %s", kind => {
  it("is marked after a day, removed by a later sweep, and usable again after a put", async () => {
    const { artifacts, clock, files } = await stage(kind)
    await artifacts.put("a", "first")
    await artifacts.put("b", "second")
    const none = { count: 0, bytes: 0 }
    expect(await artifacts.sweep()).toEqual({ removed: none, marked: none, orphans: none })
    clock.at += 25 * HOUR
    const two = { count: 2, bytes: 11 }
    expect(await artifacts.sweep({ dryRun: true })).toEqual({ removed: none, marked: two, orphans: none })
    expect(await artifacts.sweep()).toMatchObject({ removed: none, marked: two })
    expect(await artifacts.sweep()).toMatchObject({ removed: none, marked: none })
    await artifacts.put("a", "first")
    clock.at += HOUR
    expect(await artifacts.sweep()).toMatchObject({ removed: { count: 1, bytes: 6 }, marked: none })
    expect(await (await artifacts.get(sha("first"))).text()).toBe("first")
    await expect(artifacts.get(sha("second"))).rejects.toMatchObject({ code: "E802" })
    expect(files()).toHaveLength(1)
  })

  it("is kept for a minute after a claim, however short it is kept otherwise", async () => {
    const { artifacts, clock, journal } = await stage(kind, false, { orphanHours: 0 })
    const { artifact: hash } = await artifacts.put("a", "about to be referred to")
    const claim = () => journal.artifacts.claim({ owner: "local", hashes: [hash], at: clock.at })
    expect(await claim()).toEqual([hash])
    clock.at += 59_000
    expect(await artifacts.sweep()).toMatchObject({ marked: { count: 0 } })
    clock.at += 2000
    expect(await artifacts.sweep()).toMatchObject({ marked: { count: 1 } })
    expect(await claim()).toEqual([])
  })

  it("is removed if it has no row and is older than a day", async () => {
    const { artifacts, content, files } = await stage(kind)
    await artifacts.put("kept", "kept")
    const write = (text: string) => content.write("x", bodyChunks(text), { maxBytes: 100 })
    await write("old")
    const old = new Date(Date.now() - 25 * HOUR)
    for (const file of files()) utimesSync(file, old, old)
    await write("new")
    expect(await artifacts.sweep()).toMatchObject({ orphans: { count: 1, bytes: 3 } })
    expect(files()).toHaveLength(2)
    expect(await (await artifacts.get(sha("kept"))).text()).toBe("kept")
  })

  it("is kept for a minute after it was written, however short it is kept otherwise", async () => {
    const { artifacts, clock, content, files } = await stage(kind, false, { orphanHours: 0 })
    await content.write("x", bodyChunks("its row follows"), { maxBytes: 100 })
    const [file] = files()
    const writtenAgo = (ms: number) => utimesSync(file!, new Date(clock.at - ms), new Date(clock.at - ms))
    writtenAgo(59_000)
    expect(await artifacts.sweep()).toMatchObject({ orphans: { count: 0 } })
    writtenAgo(61_000)
    expect(await artifacts.sweep()).toMatchObject({ orphans: { count: 1 } })
    expect(files()).toEqual([])
  })

  it("stays readable for a process that puts it while it is swept", async () => {
    const { artifacts, clock, files } = await stage(kind, true)
    // A day passes with every step, and a sweep runs all the time: what a put has returned is always there.
    let isOver = false
    const sweeping = (async () => {
      while (!isOver) {
        await artifacts.sweep()
        await new Promise(resolve => setImmediate(resolve))
      }
    })()
    try {
      for (let n = 0; n < 60; n++) {
        const text = `content ${n % 3}`
        const { artifact } = await artifacts.put("x", text)
        expect(await (await artifacts.get(artifact)).text()).toBe(text)
        clock.at += n % 2 === 0 ? 30 * HOUR : 0
        await new Promise(resolve => setImmediate(resolve))
      }
    } finally {
      isOver = true
      await sweeping
    }
    // The content of rows that were marked when they were put again has no row.
    for (let sweeps = 0; sweeps < 3; sweeps++) {
      clock.at += 30 * HOUR
      await artifacts.sweep()
    }
    expect((await artifacts.list()).artifacts).toEqual([])
    expect(files()).toEqual([])
  })
})

describe("content that jobs refer to", () => {
  const make = handler("make", (_: unknown, ctx) => ctx.artifacts.put("made", `content of ${ctx.jobId}`))

  it("is kept with the job, and removed after it by the engine's own sweeps", async () => {
    const [store, location] = [createMemoryStore(), temporary()]
    const files = () => filesIn(location)
    const open = (retentionSeconds: number, sweepSeconds: number) =>
      openOn(store, {
        ...{ handlers: [make], engine: { retentionSeconds } },
        artifacts: { location, orphanHours: 0, sweepSeconds },
      })
    // While content is put, no sweep takes it for an orphan.
    const first = await open(3600, 3600)
    const job = await first.submit(flow([{ id: "a", handler: "make" }]))
    await job.wait()
    await first.artifacts.sweep()
    expect(files()).toHaveLength(1)
    await first.close()
    const umbra = await open(1, 1)
    await until("the job is removed", async () => (await umbra.jobs()).length === 0)
    // As if a minute had passed since the claim.
    store.connection.run("update artifacts set claimed_at = claimed_at - 60000")
    await until("its content is removed", async () => files().length === 0)
    await until("its row is removed", async () => (await umbra.artifacts.list()).artifacts.length === 0)
  })

  it("is held by schedules, until they are changed or deleted", async () => {
    const umbra = await openUmbra("memory:", { handlers: [make] })
    onTestFinished(() => umbra.close())
    await umbra.register(flow([{ id: "a", handler: "make" }], { name: "makes" } as never))
    const reference = await umbra.artifacts.put("x", "input of a schedule")
    const other = await umbra.artifacts.put("y", "another")
    const document = (file: object) => ({ workflow: "makes", every: "1d", input: { file } }) as never
    const missing = { artifact: sha("nothing") }
    await expect(umbra.schedules.put("s", document(missing))).rejects.toMatchObject({ code: "E807" })
    await umbra.schedules.put("s", document(reference))
    const isHeld = (artifact: object) =>
      umbra.artifacts.remove(artifact as never).then(
        () => false,
        ({ code }) => code === "E806",
      )
    expect(await isHeld(reference)).toBe(true)
    await umbra.schedules.put("s", document(other))
    expect(await isHeld(other)).toBe(true)
    await umbra.schedules.delete("s")
    const { artifacts } = await umbra.artifacts.list()
    expect(artifacts).toHaveLength(2)
  })
})
