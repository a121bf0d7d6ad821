import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { fileURLToPath } from "node:url"
import { afterAll, describe, expect, it } from "vitest"
import type { Json } from "../../../src/core/json.ts"
import { programArguments } from "../../support/program.ts"
import { builtIn, run } from "../adapter-run.ts"

const folder = mkdtempSync(join(tmpdir(), "umbra-sinks-"))
afterAll(() => rmSync(folder, { recursive: true }))

let count = 0
const fresh = () => join(folder, `sub-${++count}`, "out")
const content = (path: string) => readFileSync(path, "utf8")

const append = (path: string, seq: number, body: Json = seq, more = {}) =>
  run(builtIn("jsonl_sink"), { seq, body, config: { path, sync: false }, ...more })

describe("jsonl_sink and file_sink", () => {
  it("append a line for each message, or for each item of a list, and pass the message on", async () => {
    const path = fresh()
    expect((await append(path, 1, { a: "ä\n" })).answer).toEqual({ a: "ä\n" })
    await append(path, 2, [1, [2], null])
    const one = { path, value: [1, 2], each: false }
    await run(builtIn("jsonl_sink"), { seq: 3, config: one })
    expect(content(path)).toBe('{"a":"ä\\n"}\n1\n[2]\nnull\n[1,2]\n')
  })

  it("file_sink writes text, lines, or the message", async () => {
    const path = fresh()
    const sink = builtIn("file_sink")
    await run(sink, { seq: 1, body: "plain", config: { path } })
    await run(sink, { seq: 2, body: { a: 1 }, config: { path } })
    await run(sink, { seq: 3, body: 0, config: { path, text: ["x", "y"] } })
    await run(sink, { seq: 4, body: 0, config: { path, text: "end", newline: false } })
    expect(content(path)).toBe('plain\n{"a":1}\nx\ny\nend')
  })

  it("a message delivered twice is written once; another message, job or sink with the same content is another", async () => {
    const path = fresh()
    for (const seq of [1, 2, 1, 3, 2, 1]) await append(path, seq, "same")
    expect(content(path)).toBe('"same"\n'.repeat(3))
    await append(path, 1, "same", { jobId: "job-2" })
    expect(content(path)).toBe('"same"\n'.repeat(4))
  })

  it("messages side by side, each delivered twice, are all there once", async () => {
    const path = fresh()
    const seqs = Array.from({ length: 200 }, (_, i) => i + 1)
    await Promise.all([...seqs, ...seqs].map(seq => append(path, seq)))
    const lines = content(path).trimEnd().split("\n").map(Number)
    expect(lines.sort((a, b) => a - b)).toEqual(seqs)
  })

  it("files come and go, more than are kept open, while they are written to", async () => {
    const paths = Array.from({ length: 150 }, (_, i) => join(folder, "many", `${i % 100}`))
    const write = (seq: number, path: string) =>
      run(builtIn("jsonl_sink"), { seq, body: seq, config: { path, sync: false, release_seconds: 0.001 } })
    await Promise.all(paths.map((path, i) => write(i, path)))
    for (let i = 0; i < 5; i++) await write(1000 + i, paths[0]!)
    expect(content(paths[0]!)).toBe("0\n100\n1000\n1001\n1002\n1003\n1004\n")
    expect(content(paths[99]!)).toBe("99\n")
  })

  it("mode: write writes the whole file again, twice the same, and leaves no draft", async () => {
    const path = fresh()
    const config = { path, mode: "write" }
    for (const body of ["first, longer", "second", "second"])
      await run(builtIn("file_sink"), { body, config })
    expect(content(path)).toBe("second\n")
    expect(readdirSync(join(path, ".."))).toEqual(["out"])
  })

  it("gathered messages are refused where a second delivery could group them otherwise", async () => {
    const failed = append(fresh(), 1, [1, 2], { gathered: ["route:1", "route:2"] })
    await expect(failed).rejects.toThrow(/Let the route send the list to a queue/)
    await expect(failed).rejects.toMatchObject({ code: "E725", retryable: false })
  })

  it("a failed write is reported with the file (E723, E721)", async () => {
    const path = fresh()
    await append(path, 1)
    const below = join(path, "below", "file")
    await expect(append(below, 1)).rejects.toMatchObject({ code: "E723", retryable: false })
    const limited = builtIn("jsonl_sink", { allowFiles: [join(folder, "other")] })
    await expect(run(limited, { config: { path } })).rejects.toMatchObject({ code: "E721" })
    expect(existsSync(`${below}.umbra`)).toBe(false)
  })
})

interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** Messages by a process of its own, the first alone and the others at once. */
async function child(
  path: string,
  seqs: readonly number[],
  env: Record<string, string> = {},
): Promise<Ended> {
  const script = fileURLToPath(new URL("./sink-child.ts", import.meta.url))
  const parameters = [...programArguments(script), path, ...seqs.map(String)]
  const started = spawn(process.execPath, parameters, { env: { ...process.env, ...env } })
  const ended = new Promise<[number | null, NodeJS.Signals | null]>(done =>
    started.on("close", (code, signal) => done([code, signal])),
  )
  const [stdout, stderr, [code, signal]] = await Promise.all([
    text(started.stdout),
    text(started.stderr),
    ended,
  ])
  return { code, signal, stdout, stderr }
}

describe("a process that dies in the midst of an append", () => {
  // Writes 1 to 3 are those of the first message: intent, bytes, mark. The others come together: intent, bytes, and a
  // mark for each, since they are no neighbours.
  const deaths = [
    { at: 4, part: "0.5" },
    { at: 5, part: "0.5" },
    { at: 5, part: "1" },
    { at: 6, part: "1" },
    { at: 7, part: "1" },
    { at: 8, part: "1" },
  ]
  it.each(deaths)(
    "at write $at with $part of it written: delivered again, each message is there once",
    async ({ at, part }) => {
      const path = fresh()
      await append(path, 100, "first")
      await settled(path)
      const env = { UMBRA_DIE_AT: String(at), UMBRA_DIE_PART: part }
      const killed = await child(path, [1, 3, 5, 7], env)
      expect({ signal: killed.signal, stdout: killed.stdout }).toEqual({ signal: "SIGKILL", stdout: "1\n" })
      // Another message comes first, by another process: what was left must not be in its way.
      await append(path, 9, "other", { jobId: "job-2" })
      for (const seq of [1, 3, 5, 7]) await append(path, seq, { n: seq, text: "ä".repeat(seq) })
      const values = content(path)
        .trimEnd()
        .split("\n")
        .map(line => JSON.parse(line))
      const numbers = values.flatMap(value => (typeof value === "string" ? [] : [value.n]))
      expect(numbers.sort()).toEqual([1, 3, 5, 7])
      expect(values.filter(value => typeof value === "string")).toEqual(["first", "other"])
    },
  )

  it("a file that another process writes to is tried again later, and free once that one is done", async () => {
    const path = fresh()
    // However long the other process takes to start, this one has not released the file.
    await append(path, 1, 1, { config: { path, sync: false, release_seconds: 3_600 } })
    const refused = await child(path, [5])
    expect(refused.stderr).toMatch(new RegExp(`is being written by process ${process.pid}`))
    await settled(path)
    expect(await child(path, [5])).toMatchObject({ code: 0, stdout: "5\n" })
  })
})

/** This process has let go of the file. */
async function settled(path: string): Promise<void> {
  await run(builtIn("jsonl_sink"), { seq: 1000, body: [], config: { path, release_seconds: 0.001 } })
  const lock = () => readdirSync(`${path}.umbra`).find(name => /^lock\.\d+$/.test(name))!
  await expect.poll(() => readFileSync(join(`${path}.umbra`, lock()), "utf8")).toContain('"released":true')
}

describe("files that are there already", () => {
  it("are appended to, not replaced", async () => {
    const path = join(folder, "there")
    writeFileSync(path, "before\n")
    await append(path, 1)
    expect(content(path)).toBe("before\n1\n")
  })
})
