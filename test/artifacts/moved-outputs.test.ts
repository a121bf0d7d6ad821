/** `artifact_output_bytes`: large outputs are in the content store, and no reader can tell. */
import { createHash } from "node:crypto"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import type { ContentStore } from "../../src/artifacts/content-store.ts"
import { openFolderStore } from "../../src/artifacts/folder-store.ts"
import { MOVED_OWNER, withMovedFacts } from "../../src/artifacts/moved-facts.ts"
import { systemClock } from "../../src/engine/clock.ts"
import { openReader } from "../../src/jobs/reader.ts"
import { openJournal } from "../../src/journal/open.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { collectLog, openOn } from "../engine/stage.ts"
import { openStage, type Stage, stores } from "../server/stage.ts"
import { freshBucket } from "./bucket.ts"

const LIMIT = 2_000
const long = (text: string) => text.repeat(3_000)

const large = defineHandler({
  name: "large",
  run: config => {
    const { text, count = 2 } = config as { text: string; count?: number }
    return { list: Array.from({ length: count }, (_, n) => `${n} ${long(text)}`), small: "s" }
  },
})
const reads = defineHandler({ name: "reads", effects: false, run: config => config as never })

/** Templates read moved outputs, of nodes and of items; one has the form of what stands for a moved one. */
const workflow = {
  name: "moves",
  nodes: [
    { id: "first", handler: "large", config: { text: "ä{{ input.n }}" } },
    { id: "each", handler: "large", for_each: "{{ first.list }}", config: { text: "item", count: 1 } },
    { id: "wait", handler: "approval", dependencies: ["first"] },
    {
      id: "last",
      handler: "reads",
      dependencies: ["wait", "each"],
      config: { value: "{{ first.list[1] }}", of: "{{ each[1].small }}" },
    },
    {
      id: "small",
      handler: "transform",
      dependencies: ["wait"],
      config: { value: { $moved: { key: "other/1", hash: "sha256:0", bytes: 3 } } },
    },
  ],
  output: { last: "{{ last.value }}", small: "{{ small }}" },
}
const approval = { name: "approved" }

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), "umbra-moved-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function filesIn(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries.filter(entry => entry.isFile()).map(({ name }) => name)
}

function promised() {
  let resolve = () => {}
  const promise = new Promise<void>(done => {
    resolve = done
  })
  return { promise, resolve: () => resolve() }
}

/** A content store whose writes wait until they are allowed. */
function slowStore() {
  const store = openFolderStore(temporary())
  const [begun, allowed] = [promised(), promised()]
  const content: ContentStore = {
    label: store.label,
    async write(...given) {
      begun.resolve()
      await allowed.promise
      return store.write(...given)
    },
    read: (...given) => store.read(...given),
    size: key => store.size(key),
    remove: key => store.remove(key),
    list: query => store.list(query),
    close: () => store.close(),
  }
  return { content, begun, allowed }
}

const handlers = [
  large,
  reads,
  defineHandler({
    name: "approval",
    run: async () => (await import("../../src/worker/waiting.ts")).waitForSignal("approved"),
  }),
]

/** Runs a job to its end; the process restarts while it waits. */
async function ran(open: () => Promise<Stage>): Promise<{ stage: Stage; job: string }> {
  const first = await open()
  await first.umbra.register(workflow as never)
  const { id } = await first.umbra.submit("moves", { n: 1 })
  await expect
    .poll(async () =>
      (await first.ask(`/jobs/${id}/graph`)).body.nodes.map((node: { status: string }) => node.status),
    )
    .toEqual(["COMPLETED", "COMPLETED", "WAITING", "PENDING", "PENDING"])
  await first.close()
  const stage = await open()
  await stage.ask(`/jobs/${id}/signals/${approval.name}`, { method: "POST", body: {} })
  expect(await stage.umbra.wait(id)).toMatchObject({ status: "COMPLETED" })
  return { stage, job: id }
}

/** Short, so that a difference can be read. */
const digest = (value: unknown) =>
  value === undefined ? null : createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 12)

/** What all readers show of a job, without times and ids. */
async function shown({ ask, umbra }: Stage, job: string) {
  const { body: page } = await ask(`/jobs/${job}/facts?limit=100`)
  const facts: string[] = []
  const graphs: string[] = []
  for (const { seq, index, type, node, item, attempt, ...fact } of page.facts) {
    const payloads = []
    for (const field of ["output", "job_output"]) {
      const { seq: _, ...about } = fact[field]?.$payload ?? { seq: 0, value: fact[field] }
      const isLarge = fact[field]?.$payload !== undefined
      const whole = isLarge ? (await ask(`/jobs/${job}/payloads/${seq}/${field}`)).body : null
      const path = isLarge && Array.isArray(whole.list) ? "?path=$.list[0]" : null
      const part = path && (await ask(`/jobs/${job}/payloads/${seq}/${field}${path}`)).body
      payloads.push([isLarge, digest(about), digest(whole), digest(part)])
    }
    facts.push(JSON.stringify([type, node, item, attempt, payloads]))
    const { body } = await ask(`/jobs/${job}/graph?at=%23${index}`)
    graphs.push(
      JSON.stringify(body.nodes.map((each: { id: string; status: string }) => [each.id, each.status])),
    )
  }
  const outputs: Record<string, string | null> = {}
  for (const node of ["first", "each", "last", "small"])
    outputs[node] = digest((await ask(`/jobs/${job}/nodes/${node}`)).body.output)
  const { body: items } = await ask(`/jobs/${job}/nodes/each/items`)
  const { body: config } = await ask(`/jobs/${job}/nodes/last/config`)
  const { body: report } = await ask(`/jobs/${job}/report?payloads=full`)
  const { body: events } = await ask(`/jobs/${job}/events?limit=1000`)
  const { body: row } = await ask(`/jobs/${job}`)
  // Of an output that is too large for an event: its size as a fact, which has times, and the seq.
  const plain = (output: unknown) =>
    JSON.stringify(output ?? null).replaceAll(/"\$large":\{[^}]*\}/g, "large")
  return {
    facts: facts.sort(),
    graphs: graphs.sort().at(-1),
    outputs,
    items: items.items.map(({ item, output, status }: Record<string, unknown>) =>
      [digest(item), digest(output), status].join(),
    ),
    config: digest(config.config),
    isReported: (report as string).includes(`0 ${"item".repeat(3_000)}`),
    events: events.events
      .map(({ type, node, payload }: { type: string; node?: string; payload?: { output?: unknown } }) =>
        [type, node, digest(plain(payload?.output))].join(),
      )
      .sort(),
    row: [row.status, digest(row.output)],
    verified: await umbra.queries.verify(await umbra.queries.row(job)),
  }
}

describe.each(Object.entries(stores))("large outputs on %s", (name, openStore) => {
  it.each(["a folder", "a bucket"])(
    "are in %s, and every reader shows them as if they were not",
    async kind => {
      const [plainStore, movedStore] = [await openStore(), await openStore()]
      onTestFinished(() => Promise.all([plainStore.remove(), movedStore.remove()]).then(() => {}))
      const bucket = kind === "a bucket" ? await freshBucket() : null
      if (bucket !== null) onTestFinished(() => bucket.remove())
      for (const [variable, value] of Object.entries(bucket?.environment ?? {})) vi.stubEnv(variable, value)
      onTestFinished(() => void vi.unstubAllEnvs())
      const content = bucket?.location ?? temporary()
      // No sweep by itself: content is written before its row, and without hours of grace it is an orphan in between.
      const artifacts = { location: content, outputBytes: LIMIT, orphanHours: 0, sweepSeconds: 3600 }
      const engine = { largeOutputBytes: 4_000, parkAfterMs: 0 }
      // A slow attempt has a fact that others do not have: that it has started.
      const worker = { startedAfterSeconds: 3600 }
      const plain = await ran(() =>
        openStage({
          location: plainStore.location,
          umbra: { handlers, engine, worker, artifacts: { location: temporary() } },
        }),
      )
      onTestFinished(() => plain.stage.close())
      const moved = await ran(() =>
        openStage({ location: movedStore.location, umbra: { handlers, engine, worker, artifacts } }),
      )
      await moved.stage.umbra.artifacts.sweep()
      const before = await shown(plain.stage, plain.job)
      expect(before.isReported).toBe(true)
      expect(await shown(moved.stage, moved.job)).toEqual(before)
      // No reader of artifacts sees them.
      expect((await moved.stage.ask(`/jobs/${moved.job}/artifacts`)).body.artifacts).toEqual([])
      expect((await moved.stage.ask("/artifacts")).body.artifacts).toEqual([])

      // Forks take results over, and comparisons read them.
      const fork = await moved.stage.umbra.fork(moved.job, { from: ["last"] } as never)
      expect(await fork.wait()).toMatchObject({ status: "COMPLETED" })
      expect(digest((await moved.stage.umbra.node(fork.id, "last")).output)).toBe(before.outputs.last)
      const { body: compared } = await moved.stage.ask(`/jobs/compare?a=${moved.job}&b=${fork.id}`)
      expect(compared.divergence ?? null).toBeNull()

      // What is really stored: first, two items, last.
      const count = async () => (bucket === null ? filesIn(content).length : (await bucket.keys()).length)
      expect(await count()).toBeGreaterThanOrEqual(4)
      await moved.stage.close()
      const raw = await openJournal(movedStore.location)
      const rows = await raw.readFacts([moved.job])
      const stubs = rows.filter(({ data }) => data!.startsWith('{"$moved":'))
      expect(stubs.length).toBe(4)
      const textBefore = (data: string) => JSON.stringify(JSON.parse(data).$moved.before ?? "").length
      for (const { bytes, data } of stubs) expect(bytes - textBefore(data!)).toBeLessThan(300)
      // Outputs of workers were stored before their append, without the rest of their fact.
      expect(stubs.filter(({ data }) => textBefore(data!) > 2).length).toBeGreaterThanOrEqual(3)
      expect(rows.some(({ data }) => data!.includes("itemitem"))).toBe(false)
      const [stub] = stubs
      const { hash } = JSON.parse(stub!.data!).$moved
      expect(await raw.artifacts.read({ owner: MOVED_OWNER, hash })).toMatchObject({
        type: "application/json",
      })
      await raw.close()

      // Off again: what was moved is still read, also by a process that only reads.
      if (name === "PostgreSQL") {
        vi.stubEnv("UMBRA_ARTIFACTS", content)
        const reader = await openReader(movedStore.location)
        expect(digest((await reader.node(moved.job, "first")).output)).toBe(before.outputs.first)
        await reader.close()
      }
      const off = await openStage({
        location: movedStore.location,
        umbra: {
          handlers,
          engine,
          worker,
          artifacts: { location: content, orphanHours: 0, sweepSeconds: 1 },
        },
      })
      onTestFinished(() => off.close())
      expect(digest((await off.ask(`/jobs/${moved.job}/nodes/first`)).body.output)).toBe(before.outputs.first)

      // A job that is gone takes its content with it, and the origin of a fork stays as long as the fork.
      await off.umbra.artifacts.sweep()
      await sleep(20)
      await off.umbra.artifacts.sweep()
      expect(digest((await off.ask(`/jobs/${moved.job}/nodes/first`)).body.output)).toBe(before.outputs.first)
    },
  )
})

describe("a moved output", () => {
  it("is removed after its job", async () => {
    const content = temporary()
    const data = temporary()
    const open = (aheadMs: number, sweepSeconds: number) =>
      openUmbra(data, {
        handlers,
        clock: { ...systemClock, now: () => Date.now() + aheadMs },
        engine: { retentionSeconds: 60, retentionSweepSeconds: 0.1 },
        artifacts: { location: content, outputBytes: LIMIT, orphanHours: 0, sweepSeconds },
      })
    // While content is put, no sweep takes it for an orphan.
    const first = await open(0, 3600)
    const nodes = [{ id: "a", handler: "large", config: { text: "x" } }]
    const job = await first.submit({ name: "one", nodes } as never)
    await job.wait()
    await first.artifacts.sweep()
    expect(filesIn(content)).toHaveLength(1)
    await first.close()
    const later = await open(120_000, 1)
    onTestFinished(() => later.close())
    await expect.poll(() => filesIn(content)).toEqual([])
    expect(await later.jobs()).toEqual([])
  })

  it("is stored before its append: other jobs of the same lane do not wait for the content store", async () => {
    const { content, begun, allowed } = slowStore()
    const journal = withMovedFacts(openMemory(createMemoryStore()), {
      ...{ content, outputBytes: LIMIT, now: Date.now },
    })
    const umbra = await openUmbra(journal, { handlers })
    onTestFinished(() => umbra.close())
    const small = { name: "quick", nodes: [{ id: "a", handler: "reads", config: { value: 1 } }] }
    const one = { name: "one", nodes: [{ id: "a", handler: "large", config: { text: "x" } }] }
    const job = await umbra.submit(one as never)
    await begun.promise
    // More of them than there are partitions: they are in its lane too.
    for (let n = 0; n < 80; n++)
      expect(await (await umbra.submit(small as never)).wait()).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.graph(job.id)).nodes[0]!.status).not.toBe("COMPLETED")
    allowed.resolve()
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.node(job.id, "a")).output).toMatchObject({ small: "s" })
  })

  it("is not decided on twice, nor after its job was cancelled, while it is stored", async () => {
    const { content, begun, allowed } = slowStore()
    const memory = openMemory(createMemoryStore())
    const journal = withMovedFacts(memory, { content, outputBytes: LIMIT, now: Date.now })
    const umbra = await openUmbra(journal, { handlers })
    onTestFinished(() => umbra.close())
    const one = { name: "one", nodes: [{ id: "a", handler: "large", config: { text: "x" } }] }
    const job = await umbra.submit(one as never)
    await begun.promise
    await job.cancel()
    allowed.resolve()
    expect(await job.wait()).toMatchObject({ status: "CANCELLED" })
    const types = async () => (await memory.readFacts([job.id])).map(({ type }) => type)
    await expect.poll(async () => (await types()).length).toBeGreaterThanOrEqual(2)
    expect(await types()).not.toContain("node_completed")
  })

  it("stays in the database if the content store fails, and nothing waits for it", async () => {
    const { log, lines } = collectLog()
    const umbra = await openUmbra("memory:", {
      handlers,
      log,
      artifacts: { location: "/dev/null/no-folder", outputBytes: LIMIT },
    })
    onTestFinished(() => umbra.close())
    const job = await umbra.submit({
      name: "one",
      nodes: [{ id: "a", handler: "large", config: { text: "x" } }],
    } as never)
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect((await umbra.node(job.id, "a")).output).toMatchObject({ small: "s" })
    expect(JSON.stringify(lines)).toContain("an output was not moved")
  })

  it("whose content is missing is an error that says so, and other jobs are not concerned", async () => {
    const content = temporary()
    const store = createMemoryStore()
    const options = { handlers, artifacts: { location: content, outputBytes: LIMIT } }
    const umbra = await openOn(store, options)
    const definition = { name: "one", nodes: [{ id: "a", handler: "large", config: { text: "x" } }] }
    const job = await umbra.submit(definition as never)
    await job.wait()
    await umbra.close()
    rmSync(content, { recursive: true })
    const again = await openOn(store, options)
    onTestFinished(() => again.close())
    await expect(again.node(job.id, "a")).rejects.toMatchObject({
      code: "E507",
      message: expect.stringContaining("backup"),
    })
    expect(await (await again.submit(definition as never)).wait()).toMatchObject({ status: "COMPLETED" })
  })

  it("needs a place for content", async () => {
    const { freshDatabase } = await import("../support/services.ts")
    const database = await freshDatabase()
    onTestFinished(database.drop)
    await expect(openUmbra(database.url, { artifacts: { outputBytes: LIMIT } })).rejects.toMatchObject({
      code: "E808",
    })
  })
})
