/** `ctx.artifacts` in handlers, threads and workers of a fleet; references of jobs. */
import { createHash } from "node:crypto"
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Readable } from "node:stream"
import { pathToFileURL } from "node:url"
import { threadId } from "node:worker_threads"
import { describe, expect, it, onTestFinished } from "vitest"
import type { ArtifactBody } from "../../src/artifacts/body.ts"
import { openUmbra, type UmbraOptions } from "../../src/umbra.ts"
import { FleetStage } from "../broker/stage.ts"
import { flow, handler } from "../engine/stage.ts"
import { freshDatabase } from "../support/services.ts"
import { makeInThread, readInThread } from "./fixtures/threads.ts"

const sha = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), "umbra-artifacts-test-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

async function opened(location: string, options: UmbraOptions = {}) {
  const umbra = await openUmbra(location, options)
  onTestFinished(() => umbra.close())
  return umbra
}

/** Bodies cannot be part of a config. */
let body: () => ArtifactBody = () => "a text"
const make = handler("make", (config: { name?: string; type?: string }, ctx) =>
  ctx.artifacts.put(config.name ?? "made", body(), config.type === undefined ? {} : { type: config.type }),
)
const readBack = handler("read_back", async (config: { file: { artifact: string } }, { artifacts }) => {
  const content = await artifacts.get(config.file)
  const { artifact, name, type, bytes } = content
  return { of: artifact, name, type, bytes, text: await content.text() }
})
const makeAndRead = flow([
  { id: "make", handler: "make" },
  { id: "read", handler: "read_back", dependencies: ["make"], config: { file: "{{ make }}" } },
])

describe("ctx.artifacts", () => {
  it.each(["memory:", "a folder"])(
    "stores content that other nodes read by its reference, in %s",
    async kind => {
      const location = kind === "memory:" ? kind : temporary()
      const umbra = await opened(location, { handlers: [make, readBack] })
      body = () => "a text"
      const job = await umbra.submit(makeAndRead)
      expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
      expect((await umbra.node(job.id, "make")).output).toEqual({
        artifact: sha("a text"),
        name: "made",
        type: "text/plain; charset=utf-8",
        bytes: 6,
      })
      expect((await umbra.node(job.id, "read")).output).toEqual({
        ...{ of: sha("a text"), name: "made", type: "text/plain; charset=utf-8", bytes: 6, text: "a text" },
      })
      const { artifacts } = await umbra.artifacts.list({ jobId: job.id })
      expect(artifacts.map(({ artifact }) => artifact)).toEqual([sha("a text")])
      if (kind !== "memory:") expect(readdirSync(join(location, "artifacts"))).toContain("local")
    },
  )

  it("takes texts, buffers, streams, files and file URLs", async () => {
    const umbra = await opened("memory:", { handlers: [make, readBack] })
    const file = join(temporary(), "file")
    writeFileSync(file, "in a file")
    const given: [string, () => ArtifactBody][] = [
      ["a text", () => "a text"],
      ["buffer", () => Buffer.from("buffer")],
      ["words", () => new Uint16Array(new Uint8Array(Buffer.from("words!")).buffer)],
      ["stream", () => Readable.from([Buffer.from("str"), Buffer.from("eam")])],
      ["web", () => new Blob(["web"]).stream() as unknown as AsyncIterable<Uint8Array>],
      ["texts", () => Readable.from(["te", "xts"])],
      ["in a file", () => ({ path: file })],
      ["", () => ""],
    ]
    for (const [text, make] of given) {
      body = make
      const job = await umbra.submit(makeAndRead)
      expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
      const { output } = await umbra.node(job.id, "read")
      expect(output).toMatchObject(text === "words" ? { text: "words!" } : { text, of: sha(text) })
    }
  })

  it("rejects what is no content, no name and no media type", async () => {
    const umbra = await opened("memory:", { handlers: [make] })
    const failed = async (config: Record<string, unknown>, given: unknown = "x") => {
      body = () => given as ArtifactBody
      const job = await umbra.submit(flow([{ id: "make", handler: "make", config }]))
      const { status, error } = await job.wait()
      expect(status).toBe("FAILED")
      return error?.code
    }
    expect(await failed({}, 7)).toBe("E309")
    expect(await failed({}, null)).toBe("E309")
    for (const url of [
      "ftp://127.0.0.1/x",
      "data:text/plain,x",
      pathToFileURL(import.meta.filename).href,
      "blob:x",
    ])
      expect([url, await failed({}, new URL(url))]).toEqual([url, "E309"])
    expect(await failed({}, [7])).toBe("E309")
    expect(await failed({}, { path: join(tmpdir(), "there-is-no-such-file") })).toBe("E601")
    expect(await failed({ name: "" })).toBe("E309")
    expect(await failed({ name: "a\nb" })).toBe("E309")
    expect(await failed({ type: "image" })).toBe("E309")
    expect(await failed({ type: "text/plain\r\nX: y" })).toBe("E309")
  })

  it("stores the same content once, and keeps content above the limits out", async () => {
    const folder = temporary()
    const umbra = await opened(folder, {
      handlers: [make],
      artifacts: { maxBytes: 1000, quotaBytes: 1500 },
    })
    const put = (text: string) => umbra.artifacts.put("x", text)
    const files = () =>
      readdirSync(join(folder, "artifacts"), { recursive: true, withFileTypes: true }).filter(entry =>
        entry.isFile(),
      )
    await put("a".repeat(500))
    await put("a".repeat(500))
    expect(files()).toHaveLength(1)
    await umbra.artifacts.remove(sha("a".repeat(500)))
    await put("a".repeat(1000))
    await expect(put("b".repeat(1001))).rejects.toMatchObject({ code: "E805" })
    await expect(put("b".repeat(501))).rejects.toMatchObject({ code: "E805" })
    await put("b".repeat(500))
    await umbra.artifacts.remove(sha("a".repeat(1000)))
    await expect(put("c".repeat(1001))).rejects.toMatchObject({ code: "E804" })
    expect(files()).toHaveLength(1)
  })

  it("reads ranges", async () => {
    const umbra = await opened("memory:")
    const reference = await umbra.artifacts.put("digits", "0123456789")
    const read = async (range: { first: number; last?: number }) =>
      (await umbra.artifacts.get(reference, { range })).text()
    expect(await read({ first: 2, last: 4 })).toBe("234")
    expect(await read({ first: 7 })).toBe("789")
    expect(await read({ first: 9, last: 100 })).toBe("9")
    for (const range of [{ first: 10 }, { first: -1 }, { first: 5, last: 4 }, { first: 0.5 }])
      await expect(read(range)).rejects.toMatchObject({ code: "E809" })
  })

  it("works in threads", async () => {
    const umbra = await opened("memory:", { handlers: [makeInThread, readInThread] })
    const job = await umbra.submit(
      flow([
        { id: "make", handler: "make_in_thread" },
        {
          ...{ id: "read", handler: "read_in_thread", dependencies: ["make"] },
          config: { file: "{{ make.file }}" },
        },
      ]),
    )
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    const { output } = await umbra.node(job.id, "read")
    expect(output).toMatchObject({ text: "made in a thread" })
    expect((output as { threadId: number }).threadId).not.toBe(threadId)
    const { artifacts } = await umbra.artifacts.list({ jobId: job.id })
    expect(artifacts.map(({ artifact }) => artifact)).toEqual([sha("made in a thread")])
  })

  it("has the same limits in threads", async () => {
    const umbra = await opened("memory:", { handlers: [makeInThread], artifacts: { maxBytes: 10 } })
    const job = await umbra.submit(
      flow([{ id: "make", handler: "make_in_thread", retry: { max_attempts: 1 } }]),
    )
    expect((await job.wait()).error?.code).toBe("E804")
  })

  it("works in a fleet, where workers have no database", async () => {
    const stage = new FleetStage()
    const artifacts = { location: temporary() }
    const umbra = await stage.engine({ artifacts })
    stage.worker({ handlers: [make, readBack], artifacts })
    await stage.served(umbra, "make")
    body = () => "from a worker"
    const job = await umbra.submit(makeAndRead)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.node(job.id, "read")).output).toMatchObject({ text: "from a worker" })
    expect((await umbra.artifacts.list({ jobId: job.id })).artifacts).toHaveLength(1)
  })

  it("is refused with the cure on PostgreSQL without a store; everything else works", async () => {
    const database = await freshDatabase()
    onTestFinished(database.drop)
    const umbra = await opened(database.url, { handlers: [make, readBack] })
    body = () => "a text"
    const job = await umbra.submit(makeAndRead)
    const { status, error } = await job.wait()
    expect([status, error?.code]).toEqual(["FAILED", "E808"])
    expect(error?.message).toContain("UMBRA_ARTIFACTS")
    const location = temporary()
    const other = await opened(database.url, {
      ...{ handlers: [make, readBack], artifacts: { location }, roles: ["api", "engine", "worker"] },
    })
    expect(await other.artifacts.put("x", "y")).toMatchObject({ artifact: sha("y") })
  })

  it("has no secret in its metadata", async () => {
    const secrets = (name: string) => (name === "KEY" ? "a-secret-value" : undefined)
    const umbra = await opened("memory:", { handlers: [make], secrets })
    body = () => "a text"
    const job = await umbra.submit(
      flow([
        {
          id: "make",
          handler: "make",
          config: { name: "of {{ secrets.KEY }}", type: "text/x-{{ secrets.KEY }}" },
        },
      ]),
    )
    const { status, error } = await job.wait()
    // A masked media type is none.
    expect([status, error?.code]).toEqual(["FAILED", "E309"])
    expect(JSON.stringify(error)).not.toContain("a-secret-value")
    const named = await umbra.submit(
      flow([{ id: "make", handler: "make", config: { name: "of {{ secrets.KEY }}" } }]),
    )
    expect(await named.wait()).toMatchObject({ status: "COMPLETED" })
    const { artifacts } = await umbra.artifacts.list()
    expect(artifacts.map(({ name }) => name)).toEqual(["of [secret KEY]"])
  })
})

describe("references", () => {
  const missing = { artifact: `sha256:${"0".repeat(64)}` }
  const echo = handler("echo", (config: object) => config as never)
  const echoes = (value: unknown) => flow([{ id: "a", handler: "echo", config: { value } as never }])

  it("to content that the owner does not have fail the attempt, without a retry", async () => {
    const umbra = await opened("memory:", { handlers: [echo] })
    const job = await umbra.submit(echoes(missing))
    const { status, error } = await job.wait()
    expect([status, error?.code]).toEqual(["FAILED", "E807"])
    expect((await umbra.node(job.id, "a")).attempts).toHaveLength(1)
    await umbra.artifacts.put("x", "mine")
    const good = await umbra.submit(echoes({ artifact: sha("mine") }))
    expect(await good.wait()).toMatchObject({ status: "COMPLETED" })
    const foreign = await umbra.submit(echoes({ artifact: sha("mine") }), null, { owner: "other" })
    expect((await foreign.wait()).error?.code).toBe("E807")
  })

  it("in inputs and signals are refused in the same way", async () => {
    const umbra = await opened("memory:", { handlers: [echo] })
    const workflow = flow([{ id: "a", handler: "wait_for_signal", config: { signal: "go" } }])
    const refused = { code: "E807" }
    await expect(umbra.submit(workflow, { file: missing })).rejects.toMatchObject(refused)
    expect(await umbra.submitMany(workflow, [{ file: missing } as never])).toEqual([
      { error: expect.objectContaining(refused) },
    ])
    const reference = await umbra.artifacts.put("x", "mine")
    await expect(umbra.submit(workflow, { reference }, { owner: "other" })).rejects.toMatchObject(refused)
    const job = await umbra.submit(workflow, { reference })
    expect((await umbra.artifacts.list({ jobId: job.id })).artifacts).toHaveLength(1)
    await expect(umbra.signal(job.id, "go", { file: missing })).rejects.toMatchObject(refused)
    const second = await umbra.artifacts.put("y", "another")
    await umbra.signal(job.id, "go", { file: second })
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.artifacts.list({ jobId: job.id })).artifacts).toHaveLength(2)
  })

  it("of jobs that wait as rows are held as well", async () => {
    const umbra = await opened("memory:", { handlers: [echo] })
    const reference = await umbra.artifacts.put("x", "mine")
    const job = await umbra.submit(echoes(1), { reference }, { delaySeconds: 3600 })
    expect((await umbra.artifacts.list({ jobId: job.id })).artifacts).toHaveLength(1)
    await expect(umbra.artifacts.remove(reference)).rejects.toMatchObject({ code: "E806" })
    await umbra.artifacts.remove(reference, { force: true })
    await expect(umbra.artifacts.get(reference)).rejects.toMatchObject({ code: "E803" })
    await expect(umbra.submit(echoes(1), { reference })).rejects.toMatchObject({
      code: "E807",
    })
    await umbra.artifacts.put("x", "mine")
    expect(await (await umbra.artifacts.get(reference)).text()).toBe("mine")
  })

  it("are found by their owner alone", async () => {
    const umbra = await opened("memory:")
    const reference = await umbra.artifacts.put("x", "mine", { owner: "one" })
    for (const owner of [undefined, "two", "ONE", "one "])
      await expect(umbra.artifacts.get(reference, { owner })).rejects.toMatchObject({ code: "E802" })
    expect((await umbra.artifacts.list({ owner: "two" })).artifacts).toEqual([])
    await expect(umbra.artifacts.remove(reference, { owner: "two" })).rejects.toMatchObject({ code: "E802" })
    expect(await (await umbra.artifacts.get(reference, { owner: "one" })).text()).toBe("mine")
  })
})
