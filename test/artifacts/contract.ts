/** What every store of artifact content promises (src/artifacts/content-store.ts). */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import fc from "fast-check"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { ContentStore } from "../../src/artifacts/content-store.ts"
import { programArguments } from "../support/program.ts"
import { collected, inChunks, pattern, sha256 } from "./content.ts"

export interface StoreUnderTest {
  readonly store: ContentStore
  /** The environment in which test/artifacts/writer.ts opens the same store. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** All that a list or a look at the place itself shows of content. */
  visible(): Promise<readonly string[]>
  /** What failed writes left behind and nobody sees. A writer that was killed may leave some; all others may not. */
  unfinished(): Promise<readonly string[]>
  /** The sweep of a day later. */
  listLater(): Promise<unknown>
  remove(): Promise<void>
}

const MB = 1024 * 1024
const options = { maxBytes: 100 * MB }

export function contentStoreContract(name: string, open: () => Promise<StoreUnderTest>): void {
  describe(`the contract of content stores: ${name}`, () => {
    let opened: StoreUnderTest
    let store: ContentStore
    beforeAll(async () => {
      opened = await open()
      store = opened.store
    })
    afterAll(async () => {
      await store.close()
      await opened.remove()
    })
    const write = (bytes: Uint8Array, owner = "default", size?: number) =>
      store.write(owner, inChunks(bytes, size), options)
    const read = async (key: string, range?: { first: number; last: number }) =>
      collected(await store.read(key, range))

    it("returns any bytes as they were, with their hash and size", async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.uint8Array({ maxLength: 5_000 }),
          fc.integer({ min: 1, max: 6_000 }),
          async (bytes, size) => {
            const { hash, bytes: length, key } = await write(bytes, "default", size)
            expect({ hash, length }).toEqual({ hash: sha256(bytes), length: bytes.length })
            expect(await read(key)).toEqual(Buffer.from(bytes))
            expect(await store.size(key)).toBe(bytes.length)
            await store.remove(key)
          },
        ),
        { numRuns: 15, seed: 22 },
      )
    })

    it.each([0, 1, 8 * MB - 1, 8 * MB, 8 * MB + 1, 16 * MB, 27 * MB + 5])(
      "returns %i bytes",
      async length => {
        const bytes = pattern(length)
        const written = await write(bytes)
        expect(written).toMatchObject({ hash: sha256(bytes), bytes: length })
        expect(await store.size(written.key)).toBe(length)
        expect((await read(written.key)).equals(bytes)).toBe(true)
        await store.remove(written.key)
      },
    )

    it("reads ranges: the first bytes, some in the middle across parts, the last, and no more than there are", async () => {
      const bytes = pattern(17 * MB)
      const { key } = await write(bytes, "default", MB)
      const last = bytes.length - 1
      for (const [from, to] of [
        [0, 0],
        [0, 99],
        [8 * MB - 3, 8 * MB + 3],
        [5 * MB, 12 * MB],
        [last - 4, last],
        [last, last],
        [last - 4, last + 1_000],
      ] as const)
        expect((await read(key, { first: from, last: to })).equals(bytes.subarray(from, to + 1))).toBe(true)
      expect(await read(key, { first: last + 1, last: last + 10 })).toHaveLength(0)
      await store.remove(key)
    })

    it("refuses content above the limit as soon as it is, and leaves nothing of it", async () => {
      const before = await opened.visible()
      for (const [maxBytes, length] of [
        [0, 1],
        [10, 11],
        [9 * MB, 9 * MB + 1],
        [20 * MB, 40 * MB],
      ] as const) {
        let taken = 0
        const body = async function* () {
          for await (const chunk of inChunks(pattern(length), MB)) {
            taken += chunk.length
            yield chunk
          }
        }
        await expect(store.write("default", body(), { maxBytes })).rejects.toMatchObject({ code: "E804" })
        expect(taken).toBeLessThanOrEqual(maxBytes + MB)
      }
      expect(await opened.visible()).toEqual(before)
      expect(await opened.unfinished()).toEqual([])
      expect((await store.write("default", inChunks(pattern(10)), { maxBytes: 10 })).bytes).toBe(10)
    })

    it("ends a write that is aborted, also while its source is silent, and leaves nothing of it", async () => {
      const before = await opened.visible()
      for (const length of [0, 100, 3 * MB, 20 * MB]) {
        const abort = new AbortController()
        const body = async function* () {
          yield* inChunks(pattern(length), MB)
          setTimeout(() => abort.abort(new Error("no longer wanted")), 10)
          await new Promise(() => {})
        }
        const writing = store.write("default", body(), { ...options, signal: abort.signal })
        await expect(writing).rejects.toThrow("no longer wanted")
      }
      const aborted = { ...options, signal: AbortSignal.abort(new Error("never wanted")) }
      await expect(store.write("default", inChunks(pattern(10)), aborted)).rejects.toThrow("never wanted")
      expect(await opened.visible()).toEqual(before)
      expect(await opened.unfinished()).toEqual([])
    })

    it("rejects with the error of the source, and leaves nothing", async () => {
      const before = await opened.visible()
      for (const length of [100, 20 * MB]) {
        const body = async function* () {
          yield* inChunks(pattern(length), MB)
          throw new Error("the source failed")
        }
        await expect(store.write("default", body(), options)).rejects.toThrow("the source failed")
      }
      expect(await opened.visible()).toEqual(before)
      expect(await opened.unfinished()).toEqual([])
    })

    it("gives every write its own key, also of the same content at the same time, and removes one alone", async () => {
      const bytes = pattern(9 * MB)
      const written = await Promise.all(Array.from({ length: 4 }, () => write(bytes)))
      expect(new Set(written.map(({ key }) => key)).size).toBe(4)
      expect(new Set(written.map(({ hash }) => hash))).toEqual(new Set([sha256(bytes)]))
      await store.remove(written[0]!.key)
      expect((await read(written[1]!.key)).equals(bytes)).toBe(true)
      for (const { key } of written) await store.remove(key)
    })

    it("has no content at keys that do not exist, and removes one twice", async () => {
      const { key } = await write(pattern(10))
      await store.remove(key)
      await store.remove(key)
      expect(await store.size(key)).toBeNull()
      await expect(store.read(key)).rejects.toMatchObject({ code: "E802" })
      await expect(store.read(key, { first: 0, last: 3 })).rejects.toMatchObject({ code: "E802" })
      await expect(store.read("default/../../etc/passwd")).rejects.toMatchObject({ code: "E802" })
    })

    it("keeps owners apart, whatever their names are", async () => {
      const owners = [
        "a",
        "A",
        "a/b",
        "a%2Fb",
        "..",
        ".",
        "../a",
        "ü \u{1f600}",
        "a b+c&d=e?f#g",
        "x".repeat(250),
        "~a",
        "CON",
      ]
      const written = await Promise.all(owners.map(owner => write(Buffer.from(owner), owner)))
      const prefixes = written.map(({ key }) => key.split("/")[0]!.toLowerCase())
      expect(new Set(prefixes).size).toBe(owners.length)
      for (const [index, { key }] of written.entries()) {
        expect((await read(key)).toString()).toBe(owners[index])
        await store.remove(key)
      }
    })

    it("lists all content once, in pages of any size, with sizes and times", async () => {
      const begun = Date.now()
      const written = []
      for (let index = 0; index < 23; index++) written.push(await write(pattern(index), `owner-${index % 5}`))
      const expected = written
        .map(({ key, bytes }) => ({ key, bytes }))
        .sort((a, b) => (a.key < b.key ? -1 : 1))
      const mine = new Set(expected.map(({ key }) => key))
      for (const limit of [1, 7, 23, 10_000]) {
        const found = []
        for (let after: string | undefined; ; ) {
          const page = await store.list({ after, limit })
          expect(page.length).toBeLessThanOrEqual(limit)
          if (page.length === 0) break
          found.push(...page)
          after = page.at(-1)!.key
        }
        const ours = found.filter(({ key }) => mine.has(key))
        expect(
          ours.map(({ key, bytes }) => ({ key, bytes })).sort((a, b) => (a.key < b.key ? -1 : 1)),
        ).toEqual(expected)
        // Some servers round to a second, and the clock of another machine is not ours.
        for (const { written } of ours) expect(Math.abs(written.getTime() - begun)).toBeLessThan(600_000)
      }
      for (const { key } of expected) await store.remove(key)
    })

    it("shows nothing of a writer that was killed, and its remains are gone after a day", async () => {
      const before = await opened.visible()
      const script = fileURLToPath(new URL("./writer.ts", import.meta.url))
      const child = spawn(process.execPath, programArguments(script), {
        stdio: ["ignore", "pipe", "inherit"],
        env: { ...process.env, ...opened.environment },
      })
      // It says that 20 MB are on their way, and writes on.
      await once(child.stdout, "data")
      const exited = once(child, "exit")
      child.kill("SIGKILL")
      expect((await exited)[1]).toBe("SIGKILL")
      expect(await opened.visible()).toEqual(before)
      await opened.listLater()
      expect(await opened.unfinished()).toEqual([])
    })
  })
}
