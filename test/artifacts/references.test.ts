/**
 * Every place where a job can get a reference from, with two owners, on both stores: a reference to content that the owner does not have
 * fails the attempt or the request, whoever else has it; one to content that it has is held by the job.
 */
import { createHash } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { Artifacts } from "../../src/artifacts/artifacts.ts"
import { openFolderStore } from "../../src/artifacts/folder-store.ts"
import { artifactSettings } from "../../src/artifacts/settings.ts"
import type { Json } from "../../src/core/json.ts"
import type { WorkflowSource } from "../../src/jobs/register.ts"
import { openJournal } from "../../src/journal/open.ts"
import { openUmbra, type Umbra, type UmbraOptions } from "../../src/umbra.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { FleetStage } from "../broker/stage.ts"
import { flow, handler, until } from "../engine/stage.ts"
import { adapter, recorder, route } from "../pipeline/scene.ts"
import { deliver, fakeProvider, make, optionsFor, waiting } from "../provider/stage.ts"
import { freshDatabase } from "../support/services.ts"

const sha = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`
const foreign = { artifact: sha("of the other one"), name: "x", type: "text/plain", bytes: 16 }
const own = { artifact: sha("of this one"), name: "x", type: "text/plain", bytes: 11 }
const refused = { code: "E807" }

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), "umbra-references-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** `one` has `own`, `two` has `foreign`; all jobs are of `one`. */
async function withContent(umbra: Umbra): Promise<Umbra> {
  await umbra.artifacts.put("x", "of this one", { owner: "one" })
  await umbra.artifacts.put("x", "of the other one", { owner: "two" })
  return umbra
}

async function opened(kind: string, options: UmbraOptions = {}): Promise<Umbra> {
  return (await stage(kind, options)).umbra
}

async function stage(kind: string, options: UmbraOptions = {}) {
  const folder = temporary()
  const database = kind === "SQLite" ? null : await freshDatabase()
  if (database !== null) onTestFinished(database.drop)
  const journal = await openJournal(database?.url ?? join(folder, "data"))
  const location = join(folder, "content")
  const umbra = await openUmbra(journal, { ...options, artifacts: { location } })
  onTestFinished(() => umbra.close())
  /** As sweeps of later days do. */
  const sweepLater = async () => {
    let now = Date.now()
    const content = openFolderStore(location)
    const settings = artifactSettings()
    const later = new Artifacts({ rows: journal.artifacts, content, location, settings, now: () => now })
    for (let day = 0; day < 3; day++) {
      now += 25 * 3600_000
      await later.sweep()
    }
  }
  return { umbra: await withContent(umbra), sweepLater }
}

const echo = handler("echo", (config: { value?: unknown }) => config.value as never)
const awaiting = handler("awaiting", (config: { value: unknown }) =>
  waitForSignal("go", { until: Date.now() + 3600_000, default: config.value }),
)
const show = handler("show", async (config: { previews: Json[] }, ctx) => {
  for (const preview of config.previews) ctx.preview(preview)
  return "shown"
})
const handlers = [echo, awaiting, show]

/** Only what `refer` emits are references: the input and the messages before it have texts. */
const hashes = adapter("hashes", (_, { input, emit }) => {
  for (const hash of (input as { hashes?: string[] }).hashes ?? []) emit({ hash })
})
const refer = adapter("refer", ({ body }) => ({ artifact: (body as { hash: string }).hash }))
const referAll = adapter("refer_all", ({ body }) =>
  (body as { hash: string }[]).map(({ hash }) => ({ artifact: hash })),
)
const once = adapter("once", async ({ body }, { storage }) => ((await storage.claim("key")) ? body : null))
const both = adapter(
  "both",
  ({ body }) => body,
  () => ({ count: 2, seconds: 3600 }),
)
const adapters = [hashes, refer, referAll, once, both]

const pipeline = (work: readonly string[] = ["refer"]) => ({
  name: "pipes",
  init: { body: {} as Json },
  routes: [
    route("source", ["hashes"], { outbound: "work" }),
    route("work", work, { outbound: "store", concurrency: 1, error_handling: { circuit_breaker: false } }),
    route("store", ["record"]),
  ],
})

const submit = (umbra: Umbra, workflow: WorkflowSource, input: Json = null) =>
  umbra.submit(workflow, input, { owner: "one" })

async function held(umbra: Umbra, jobId: string): Promise<string[]> {
  const { artifacts } = await umbra.artifacts.list({ owner: "one", jobId })
  return artifacts.map(({ artifact }) => artifact)
}

/** The code with which a job ends; what it holds otherwise. */
async function ended(umbra: Umbra, workflow: WorkflowSource, input: Json = null) {
  const job = await submit(umbra, workflow, input)
  const { status, error } = await job.wait()
  return status === "COMPLETED" ? held(umbra, job.id) : error?.code
}

describe.each(["SQLite", "PostgreSQL"])("references on %s", kind => {
  it("in outputs, item outputs, waits and inputs of child jobs fail the attempt", async () => {
    const umbra = await opened(kind, { handlers })
    const node = (more: object) => flow([{ id: "a", handler: "echo", ...more } as never])
    await umbra.register({ name: "child", nodes: [{ id: "c", handler: "echo" }] } as never, "one")
    const outputs = (of: Json) => [
      node({ config: { value: { deep: [{ file: of }] } } }),
      node({ handler: "transform", config: { value: of } }),
      node({ for_each: "{{ [1, 2] }}", config: { value: of } }),
      node({ for_each: "{{ input.files }}", config: { value: "{{ {'artifact': item.hash} }}" } }),
      flow([{ id: "a", handler: "workflow", config: { workflow: "child", input: of } } as never]),
    ]
    const input = (hash: string) => ({ files: [{ hash }] })
    for (const workflow of outputs(foreign))
      expect(await ended(umbra, workflow, input(foreign.artifact))).toBe("E807")
    for (const workflow of outputs(own).slice(0, 4))
      expect(await ended(umbra, workflow, input(own.artifact))).toEqual([own.artifact])
    const waits = flow([{ id: "a", handler: "awaiting", config: { value: foreign } } as never])
    expect(await ended(umbra, waits)).toBe("E807")
  })

  it("that a child job returns are held by its parent too", async () => {
    const umbra = await opened(kind, { handlers })
    const child = { name: "child", nodes: [{ id: "c", handler: "echo", config: { value: "{{ input }}" } }] }
    await umbra.register({ ...child, output: "{{ c }}" } as never, "one")
    const parent = flow([
      { id: "a", handler: "workflow", config: { workflow: "child", input: own } } as never,
    ])
    expect(await ended(umbra, parent)).toEqual([own.artifact])
  })

  it("in inputs of one job, of many and of later ones, and in signals, are refused", async () => {
    const umbra = await opened(kind, { handlers })
    const workflow = flow([{ id: "a", handler: "wait_for_signal", config: { signal: "go" } }])
    const owner = "one"
    await expect(umbra.submit(workflow, { foreign }, { owner })).rejects.toMatchObject(refused)
    await expect(umbra.submit(workflow, { foreign }, { owner, delaySeconds: 60 })).rejects.toMatchObject(
      refused,
    )
    const many = await umbra.submitMany(workflow, [{ own }, { foreign }, 1] as never, { owner })
    expect(many).toEqual([expect.anything(), { error: expect.objectContaining(refused) }, expect.anything()])
    const job = await submit(umbra, workflow, { own })
    await expect(umbra.signal(job.id, "go", [foreign])).rejects.toMatchObject(refused)
    expect(await held(umbra, job.id)).toEqual([own.artifact])
    await umbra.signal(job.id, "go", [own])
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  })

  it("in the default of a signal's schema are refused", async () => {
    const umbra = await opened(kind, { handlers })
    for (const [of, code] of [
      [foreign, "E807"],
      [own, undefined],
    ] as const) {
      const schema = { type: "object", properties: { file: { default: of } } }
      const config = { signal: "go", schema }
      const job = await submit(umbra, flow([{ id: "a", handler: "wait_for_signal", config } as never]))
      await until("it waits", async () => (await umbra.graph(job.id)).waiting_for.length > 0)
      const sent = umbra.signal(job.id, "go", {}).then(
        () => undefined,
        (error: { code?: string }) => error.code,
      )
      expect(await sent).toBe(code)
      if (code === undefined) {
        await job.wait()
        expect(await held(umbra, job.id)).toEqual([own.artifact])
      } else await umbra.cancel(job.id)
    }
  })

  it("a list of for_each that is built from text does not count as held", async () => {
    const umbra = await opened(kind, { handlers })
    const list = "{{ [{'artifact': 'sha256:' ~ input.digits}] }}"
    const reference = { artifact: "sha256:{{ input.digits }}" }
    await umbra.register({ name: "child", nodes: [{ id: "c", handler: "echo" }] } as never, "one")
    const uses = [
      { handler: "transform", config: { value: reference } },
      { handler: "echo", config: { value: reference } },
      { handler: "show", config: { previews: [reference] } },
      { handler: "workflow", config: { workflow: "child", input: reference } },
    ]
    for (const use of uses) {
      const listed = { id: "list", handler: "transform", for_each: list, config: { value: 1 } }
      const workflow = flow([listed, { id: "use", dependencies: ["list"], ...use }] as never)
      const digits = (of: { artifact: string }) => ({ digits: of.artifact.slice("sha256:".length) })
      expect([use.handler, await ended(umbra, workflow, digits(foreign))]).toEqual([use.handler, "E807"])
      expect(await ended(umbra, workflow, digits(own))).toEqual([own.artifact])
    }
  })

  it("in inputs of schedules are refused, and held by the schedule", async () => {
    const umbra = await opened(kind, { handlers })
    await umbra.register(flow([{ id: "a", handler: "echo" }]) as never, "one")
    const schedule = (input: Json) => ({ workflow: "flow", cron: "0 0 1 1 *", input })
    const put = (input: Json) => umbra.schedules.put("yearly", schedule(input) as never, { owner: "one" })
    await expect(put({ file: foreign })).rejects.toMatchObject(refused)
    await put({ file: own })
    await expect(put({ file: foreign })).rejects.toMatchObject(refused)
    await expect(umbra.artifacts.remove(own, { owner: "one" })).rejects.toMatchObject({ code: "E806" })
    const { job_id } = await umbra.schedules.run("yearly", { owner: "one" })
    await umbra.wait(job_id)
    expect(await held(umbra, job_id)).toEqual([own.artifact])
  })

  it("in previews of handlers fail the attempt, and are not shown", async () => {
    const umbra = await opened(kind, { handlers })
    const shows = (previews: Json[]) => flow([{ id: "a", handler: "show", config: { previews } as never }])
    expect(await ended(umbra, shows([{ own }]))).toEqual([own.artifact])
    for (const previews of [[{ foreign }], [{ foreign }, 1], [{ own }, { foreign }]]) {
      const job = await submit(umbra, shows(previews as Json[]))
      expect((await job.wait()).error?.code).toBe("E807")
      expect(JSON.stringify(await umbra.graph(job.id))).not.toContain(`"artifact":"${foreign.artifact}"`)
    }
    // In the order in which they were published, also if only some need a check.
    const job = await submit(umbra, shows([{ own }, "last"]))
    await job.wait()
    const { facts } = await umbra.queries.facts.page(job.id, { limit: 100 })
    const shown = facts
      .filter(({ type }) => type === "preview_published")
      .map(record => (record as { data?: Json }).data)
    expect(shown).toEqual([{ own }, "last"])
  })

  describe.each(["poll", "webhook"])("that a provider reports by %s", by => {
    const over = { poll_seconds: [by === "poll" ? 0.02 : 3600] }

    async function reported(of: "output" | "preview", value: Json) {
      const fake = await fakeProvider()
      const umbra = await opened(kind, optionsFor(fake, { over }))
      const job = await umbra.submit(make(), null, { owner: "one" })
      const id = await waiting(umbra, fake, job.id)
      if (of === "output") fake.complete(id, value)
      else fake.operations.get(id)!.preview = value
      if (by === "webhook") await deliver(umbra, fake, id)
      return { umbra, job, fake, id }
    }

    it("fail the attempt in a result", async () => {
      const { job } = await reported("output", { film: foreign })
      expect(await job.wait()).toMatchObject({ status: "FAILED", error: refused })
    })

    it("are held in a result that has them rightly", async () => {
      const { umbra, job } = await reported("output", { film: own })
      expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
      expect(await held(umbra, job.id)).toEqual([own.artifact])
    })

    it("fail the attempt in a preview, and the operation is cancelled", async () => {
      const { job, fake } = await reported("preview", { frame: foreign })
      expect(await job.wait()).toMatchObject({ status: "FAILED", error: refused })
      await until("the operation is cancelled", () => fake.cancels === 1)
    })

    it("are held in a preview that has them rightly", async () => {
      const { umbra, job } = await reported("preview", { frame: own })
      await until("it is shown", async () => {
        const { nodes } = await umbra.graph(job.id)
        return JSON.stringify(nodes[0]!.preview) === JSON.stringify({ frame: own })
      })
      expect(await held(umbra, job.id)).toEqual([own.artifact])
    })
  })

  it("in what a fork changes are refused; what it takes over stays after its origin", async () => {
    const { umbra, sweepLater } = await stage(kind, { handlers })
    const value = { value: own }
    const chain = flow([
      { id: "a", handler: "echo", config: value as never },
      { id: "b", handler: "echo", dependencies: ["a"], config: { value: "{{ a.name }}" } },
    ])
    const origin = await submit(umbra, chain)
    await origin.wait()
    const confirm = { unknown: true }
    const fork = (request: object) => umbra.fork(origin.id, { confirm, ...request } as never)
    await expect(fork({ input: { foreign } })).rejects.toMatchObject(refused)
    await expect(fork({ overrides: { a: { output: [foreign] } } })).rejects.toMatchObject(refused)
    const bulk = (output: Json) =>
      umbra.bulk.start(
        {
          verb: "fork",
          filter: { workflow: "flow" },
          fork: { confirm, overrides: { a: { output } } },
        } as never,
        { owner: "one" },
      )
    await expect(bulk([foreign])).rejects.toMatchObject(refused)
    const changed = await fork({ overrides: { a: { config: { value: foreign } } } })
    expect((await changed.wait()).error?.code).toBe("E807")
    const pinned = await fork({ overrides: { a: { output: own } } })
    await pinned.wait()
    expect(await held(umbra, pinned.id)).toEqual([own.artifact])
    const reusing = await fork({ from: ["b"] })
    expect(await reusing.wait()).toMatchObject({ status: "COMPLETED" })
    for (const { id } of [origin, pinned, changed]) await umbra.delete(id)
    await sweepLater()
    expect((await umbra.node(reusing.id, "a")).output).toEqual(own)
    expect(await (await umbra.artifacts.get(own, { owner: "one" })).text()).toBe("of this one")
    // The other owner's, which nothing refers to, is gone.
    await expect(umbra.artifacts.get(foreign, { owner: "two" })).rejects.toMatchObject({ code: "E802" })
  })

  it("in messages of pipelines make dead letters of what emits them", async () => {
    const store = recorder()
    const umbra = await opened(kind, { adapters: [...adapters, store] })
    const run = async (hashes: readonly string[], work?: readonly string[]) => {
      const job = await submit(umbra, pipeline(work) as unknown as WorkflowSource, { hashes: [...hashes] })
      const { status } = await job.wait()
      const letters = (await umbra.pipelines.deadLetters(job.id)).dead_letters
      return {
        id: job.id,
        status,
        dead: letters.map(({ error }) => (error as { code: string }).code),
        seen: store.seen.splice(0).length,
      }
    }
    const good = await run([own.artifact, own.artifact])
    expect(good).toMatchObject({ status: "COMPLETED", dead: [], seen: 2 })
    expect(await held(umbra, good.id)).toEqual([own.artifact])
    const bad = await run([own.artifact, foreign.artifact])
    expect(bad).toMatchObject({ status: "COMPLETED", dead: ["E807"], seen: 1 })
    expect(await held(umbra, bad.id)).toEqual([own.artifact])
    const { invocations } = (await umbra.pipelines.lineage(bad.id, "work:2")).message!
    expect(invocations).toMatchObject([{ adapter: "refer", status: "failed", error: refused }])
    // A message that failed for this reason keeps no key from others.
    const claimed = await run([foreign.artifact, own.artifact], ["once", "refer"])
    expect(claimed).toMatchObject({ dead: ["E807"], seen: 1 })
    // Those that were gathered share the result.
    const gathered = await run([own.artifact, foreign.artifact], ["both", "refer_all"])
    expect(gathered).toMatchObject({ dead: ["E807", "E807"], seen: 0 })

    const replay = (of: string, bodies: { readonly [message: string]: Json }) =>
      umbra.pipelines.replay(of, { bodies })
    await expect(replay(bad.id, { "work:2": { foreign } })).rejects.toMatchObject(refused)
    const replayed = await replay(bad.id, { "work:2": { hash: own.artifact, and: own } })
    expect(await umbra.wait(replayed.jobId)).toMatchObject({ status: "COMPLETED" })
    expect(await held(umbra, replayed.jobId)).toEqual([own.artifact])
    expect(store.seen.splice(0)).toHaveLength(1)
  })

  it("in the first messages of an execution fail it", async () => {
    const umbra = await opened(kind, { adapters: [...adapters, recorder()] })
    const first = (body: Json) => ({ ...pipeline(), init: { body } }) as unknown as WorkflowSource
    expect(await ended(umbra, first({ foreign }))).toBe("E807")
    await expect(submit(umbra, first("{{ input }}"), { foreign })).rejects.toMatchObject(refused)
    expect(await ended(umbra, first({ own }))).toEqual([own.artifact])
  })
})

it("references in messages that workers emit are checked by the engine", async () => {
  const stage = new FleetStage()
  const store = recorder()
  const artifacts = { location: temporary() }
  const umbra = await withContent(await stage.engine({ adapters: [...adapters, store], artifacts }))
  stage.worker({ adapters })
  await stage.served(umbra, "adapter:refer")
  const [source, work, last] = pipeline().routes
  const routes = [source, { ...work, run_on: "workers" }, last]
  const job = await submit(umbra, { ...pipeline(), routes } as unknown as WorkflowSource, {
    hashes: [own.artifact, foreign.artifact],
  })
  expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
  const { dead_letters } = await umbra.pipelines.deadLetters(job.id)
  expect(dead_letters.map(({ error }) => (error as { code: string }).code)).toEqual(["E807"])
  expect(store.seen).toEqual([{ artifact: own.artifact }])
  expect(await held(umbra, job.id)).toEqual([own.artifact])
})
