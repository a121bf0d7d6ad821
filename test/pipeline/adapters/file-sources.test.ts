import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { open } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { afterAll, describe, expect, it, onTestFinished } from "vitest"
import type { Json } from "../../../src/core/json.ts"
import fc from "../../support/property.ts"
import { builtIn, drain, run } from "../adapter-run.ts"

const folder = mkdtempSync(join(tmpdir(), "umbra-sources-"))
afterAll(() => rmSync(folder, { recursive: true }))

let count = 0
function file(content: string | Buffer): string {
  const path = join(folder, `file-${++count}`)
  writeFileSync(path, content)
  return path
}

const reading = (type: string, path: string, config = {}) => drain(builtIn(type), () => ({ path, ...config }))
const linesOf = async (content: string | Buffer) => (await reading("file_source", file(content))).bodies

const texts = (bodies: readonly Json[]) => bodies.map(body => (body as { text: string }).text)

describe("file_source", () => {
  it.each<[string, string | Buffer, string[]]>([
    ["no newline at the end", "a\nb", ["a", "b"]],
    ["a newline at the end", "a\nb\n", ["a", "b"]],
    ["CRLF", "a\r\nb\r\n", ["a", "b"]],
    ["a byte order mark", "\uFEFFa\n\uFEFFb\n", ["a", "\uFEFFb"]],
    ["empty lines", "\n\na\n\n", ["", "", "a", ""]],
    ["an empty file", "", []],
    ["bytes that are no UTF-8", Buffer.from([0x61, 0xff, 0x0a, 0x62]), ["a\uFFFD", "b"]],
  ])("%s", async (_, content, expected) => {
    expect(texts(await linesOf(content))).toEqual(expected)
  })

  it("numbers lines across steps, and keeps what the message has while it reads on", async () => {
    const path = file("a\nb\nc\nd\ne")
    const read = await drain(
      builtIn("file_source"),
      body => ({ path: (body as { file: string }).file, lines_per_step: 2 }),
      { body: { file: path } },
    )
    expect(read.bodies).toEqual(["a", "b", "c", "d", "e"].map((text, i) => ({ line: i + 1, text })))
    expect(read.steps).toBe(3)
  })

  it("any text, any steps: the lines are those of the text (characters over chunk borders included)", async () => {
    const line = fc.string({ unit: "binary", maxLength: 40 }).map(text => text.replace(/[\r\n\uFEFF]/g, "ä"))
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 30 }),
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 1, max: 60 }),
        async (lines, lines_per_step, bytes_per_step) => {
          const path = file(lines.map(line => `${line}\n`).join(""))
          const { bodies } = await reading("file_source", path, { lines_per_step, bytes_per_step })
          expect(texts(bodies)).toEqual(lines.map(line => Buffer.from(line).toString()))
        },
      ),
      { numRuns: 40 },
    )
    const wide = "ä€😀".repeat(30_000)
    expect(texts(await linesOf(`x${wide}\nyy${wide}`))).toEqual([`x${wide}`, `yy${wide}`])
  })

  it("a step is bounded by its bytes", async () => {
    const path = file(`${"x".repeat(99)}\n`.repeat(100))
    const steps: number[] = []
    await drain(builtIn("file_source"), () => ({ path, bytes_per_step: 1000 }), {
      seen: ({ emitted }) => steps.push(emitted.length),
    })
    expect(steps).toEqual([...Array(10).fill(10), 0])
  })

  it("a line that is too long fails with its number, or is passed over in steps of flat memory", async () => {
    const path = file(`a\n${"x".repeat(3_000_000)}\nb\n${"y".repeat(200)}`)
    const config = { max_line_bytes: 100, bytes_per_step: 200_000 }
    await expect(reading("file_source", path, config)).rejects.toThrow(
      /Line 2 of .* is invalid: it is longer than max_line_bytes \(100\)/,
    )
    await expect(reading("file_source", path, config)).rejects.toMatchObject({
      code: "E724",
      retryable: false,
    })
    const skipped = await reading("file_source", path, { ...config, invalid: "skip" })
    expect(skipped.bodies).toEqual([
      { line: 1, text: "a" },
      { line: 3, text: "b" },
    ])
    expect(skipped.steps).toBeGreaterThan(10)
    const kinds: string[] = []
    await drain(builtIn("file_source"), () => ({ path, ...config, invalid: "emit" }), {
      seen: ({ emitted }) => kinds.push(...emitted.map(({ kind }) => kind)),
    })
    expect(kinds).toEqual(["default", "invalid", "default", "invalid"])
  })

  it("read: text gives all of it, if it is not too long", async () => {
    const path = file("\uFEFFä\r\nb")
    const source = builtIn("file_source")
    expect((await run(source, { config: { path, read: "text" } })).answer).toEqual({ path, text: "ä\r\nb" })
    const added = await run(source, { body: { id: 1 }, config: { path, read: "text", as: "page" } })
    expect(added.answer).toEqual({ id: 1, page: "ä\r\nb" })
    const config = { path, read: "text", max_text_bytes: 5 }
    await expect(run(source, { config })).rejects.toThrow(/longer than max_text_bytes \(5\)/)
  })

  it("what was appended while it was read is read too; a file that became shorter is an error", async () => {
    const path = file("a\nb\n")
    const source = builtIn("file_source")
    const config = { path, lines_per_step: 1 }
    const first = await run(source, { config })
    writeFileSync(path, "c\n", { flag: "a" })
    const second = await run(source, { body: first.continued[0]!, config: { path } })
    expect(texts(second.emitted.map(({ body }) => body))).toEqual(["b", "c"])
    truncateSync(path, 3)
    const failed = run(source, { body: first.continued[0]!, config })
    await expect(failed).rejects.toThrow(/has become shorter while it was read \(4 bytes before, 3 now\)/)
    await expect(failed).rejects.toMatchObject({ code: "E722", retryable: false })
  })

  it("a file that vanished, a folder: the error says so", async () => {
    const path = file("a\nb\n")
    const source = builtIn("file_source")
    const first = await run(source, { config: { path, lines_per_step: 1 } })
    rmSync(path)
    const failed = run(source, { body: first.continued[0]!, config: { path } })
    await expect(failed).rejects.toThrow(/cannot be read: it does not exist/)
    await expect(failed).rejects.toMatchObject({ code: "E722", retryable: true })
    const isFolder = run(source, { config: { path: folder } })
    await expect(isFolder).rejects.toThrow(/it is a folder/)
    await expect(isFolder).rejects.toMatchObject({ code: "E722", retryable: false })
  })

  it("an abort ends a step at once, and a message that is no mapping cannot read on", async () => {
    const path = file("a\nb\n")
    const signal = AbortSignal.abort(new Error("enough"))
    await expect(run(builtIn("file_source"), { config: { path }, signal })).rejects.toThrow("enough")
    const config = { path, lines_per_step: 1 }
    await expect(run(builtIn("file_source"), { body: "x", config })).rejects.toThrow(/mapping or null/)
  })

  it("only files that the operator allows are read, also through links (E721)", async () => {
    const inside = file("a\n")
    const elsewhere = mkdtempSync(join(tmpdir(), "umbra-outside-"))
    onTestFinished(() => rmSync(elsewhere, { recursive: true }))
    const outside = join(elsewhere, "secret")
    writeFileSync(outside, "secret\n")
    const link = join(folder, "link")
    symlinkSync(outside, link)
    const source = builtIn("file_source", { allowFiles: [folder] })
    const refused = { code: "E721", retryable: false }
    for (const path of [outside, link, "../x", "/etc/passwd", join(folder, "..", "y")])
      await expect(run(source, { config: { path } })).rejects.toMatchObject(refused)
    expect((await run(source, { config: { path: inside } })).emitted).toHaveLength(1)
    const name = inside.slice(folder.length + 1)
    expect((await run(source, { config: { path: name } })).emitted).toHaveLength(1)
    const none = builtIn("file_source", { allowFiles: false })
    await expect(run(none, { config: { path: inside } })).rejects.toThrow(
      /no file is allowed.*UMBRA_ALLOW_FILES/,
    )
  })

  it("a link to the outside does not reveal whether a path behind it exists (E721)", async () => {
    const elsewhere = mkdtempSync(join(tmpdir(), "umbra-outside-"))
    onTestFinished(() => rmSync(elsewhere, { recursive: true }))
    writeFileSync(join(elsewhere, "there"), "secret\n")
    const own = join(folder, "carol")
    mkdirSync(own)
    const links = {
      ...{ folder: elsewhere, there: join(elsewhere, "there"), missing: join(elsewhere, "missing") },
      ...{ "folder-missing": join(elsewhere, "no", "folder"), loop: join(elsewhere, "loop") },
      relative: relative(own, join(elsewhere, "missing")),
      again: join(own, "missing"),
    }
    for (const [name, target] of Object.entries(links)) symlinkSync(target, join(own, name))
    symlinkSync(join(elsewhere, "loop"), join(elsewhere, "loop"))
    const source = builtIn("file_source", { allowFiles: [folder] })
    const sink = builtIn("file_sink", { allowFiles: [folder] })
    const paths = [
      ...["there", "missing", "relative", "again", "loop", "folder/there", "folder/missing"],
      ...["folder/there/x", "folder/missing/x", "folder-missing/x", `folder/${"x".repeat(300)}`, "loop/x"],
    ]
    const before = readdirSync(elsewhere)
    for (const path of paths)
      for (const adapter of [source, sink]) {
        const error = await run(adapter, { owner: "carol", config: { path } }).catch(thrown => thrown)
        expect([path, error.code, error.message.replace(path, "PATH")]).toEqual([
          ...[path, "E721", expect.stringContaining("Pipelines may not use the file PATH: only files in")],
        ])
      }
    expect(readdirSync(elsewhere)).toEqual(before)
    const gone = run(source, { owner: "carol", config: { path: "own-missing" } })
    await expect(gone).rejects.toMatchObject({ code: "E722" })
    symlinkSync("own-missing", join(own, "own-link"))
    const linked = run(source, { owner: "carol", config: { path: "own-link" } })
    await expect(linked).rejects.toMatchObject({ code: "E722" })
  })

  it("a path with a NUL is refused under our own code (E721)", async () => {
    const allowed: { allowFiles: boolean | string[] }[] = [{ allowFiles: true }, { allowFiles: [folder] }]
    for (const settings of allowed)
      for (const type of ["file_source", "jsonl_source", "file_sink", "jsonl_sink"] as const) {
        const failed = run(builtIn(type, settings), { config: { path: "a\0b" } })
        await expect(failed).rejects.toThrow(
          'Pipelines may not use the file "a\\u0000b": its path contains a NUL',
        )
        await expect(failed).rejects.toMatchObject({ code: "E721", retryable: false })
      }
  })

  it("an owner other than local has a folder of its own, and reaches no other owner's (E721)", async () => {
    const source = builtIn("file_source", { allowFiles: [folder] })
    const read = async (owner: string, path: string) =>
      (await run(source, { owner, config: { path } })).emitted
    for (const name of ["alice", "%41lice", "%2E%2E"]) {
      mkdirSync(join(folder, name), { recursive: true })
      writeFileSync(join(folder, name, "x"), `of ${name}\n`)
    }
    const refused = { code: "E721", retryable: false }
    expect(await read("alice", "x")).toEqual([{ body: { line: 1, text: "of alice" }, kind: "default" }])
    expect(await read("alice", join(folder, "alice", "x"))).toHaveLength(1)
    expect(await read("Alice", "x")).toMatchObject([{ body: { text: "of %41lice" } }])
    expect(await read("..", "x")).toMatchObject([{ body: { text: "of %2E%2E" } }])
    expect(await read("local", "alice/x")).toHaveLength(1)
    const others = [
      "../alice/x",
      join(folder, "alice", "x"),
      join(folder, "bob", "..", "alice", "x"),
      "..",
      ".",
    ]
    for (const path of others) await expect(read("bob", path)).rejects.toMatchObject(refused)
    await expect(read("bob", "x")).rejects.toMatchObject({ code: "E722" })
    const message = await read("bob", "/etc/passwd").catch(error => (error as Error).message)
    expect(message).toContain(`only files in ${join(folder, "bob")} are allowed`)
    const all = builtIn("file_source", { allowFiles: true })
    await expect(run(all, { owner: "bob", config: { path: "/etc/hostname" } })).rejects.toMatchObject(refused)
    const [long, longer] = ["ü".repeat(199), "ü".repeat(200)]
    for (const owner of [long, longer]) await expect(read(owner, "x")).rejects.toMatchObject({ code: "E722" })
  })

  it("a file of 20 MB is read in flat memory", async () => {
    const path = join(folder, "large")
    const handle = await open(path, "w")
    const part = Array.from({ length: 10_000 }, (_, i) => `line ${i} ${"ä".repeat(45)}\n`).join("")
    const times = Math.ceil(20_000_000 / Buffer.byteLength(part))
    for (let i = 0; i < times; i++) await handle.write(part)
    await handle.close()
    let lines = 0
    let most = 0
    const before = process.memoryUsage()
    const used = () => process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed
    await drain(builtIn("file_source"), () => ({ path }), {
      seen: ({ emitted }) => {
        lines += emitted.length
        most = Math.max(most, used())
      },
    })
    expect(lines).toBe(times * 10_000)
    // Garbage of steps that ended is in it too, so no less can be asked for; the file would be 40 MB as text.
    expect(most - before.arrayBuffers - before.heapUsed).toBeLessThan(60_000_000)
  })
})

describe("jsonl_source", () => {
  it("emits each value, in steps; empty lines, CRLF and a byte order mark are nothing special", async () => {
    const path = file('\uFEFF{"a":1}\r\n\n[2]\n  \n"ä"\n\nnull')
    const { bodies, steps } = await reading("jsonl_source", path, { lines_per_step: 3 })
    expect(bodies).toEqual([{ a: 1 }, [2], "ä", null])
    expect(steps).toBe(3)
  })

  it("a broken line fails with its number, in later steps too, or is emitted or skipped", async () => {
    const path = file('{"a":1}\n{"a":2}\n{"a":\n{"a":4}\n')
    const failed = reading("jsonl_source", path, { lines_per_step: 2 })
    await expect(failed).rejects.toThrow(/Line 3 of .* is invalid: it is not JSON \(/)
    await expect(failed).rejects.toMatchObject({ code: "E724", retryable: false, details: { line: 3 } })
    expect((await reading("jsonl_source", path, { invalid: "skip" })).bodies).toEqual([
      { a: 1 },
      { a: 2 },
      { a: 4 },
    ])
    const { emitted } = await run(builtIn("jsonl_source"), { config: { path, invalid: "emit" } })
    expect(emitted[2]).toMatchObject({ kind: "invalid", body: { line: 3 } })
  })
})
