import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import type { Json } from "../../src/core/json.ts"
import { jobPartition } from "../../src/engine/ids.ts"
import { createMemoryStore } from "../../src/journal/sqlite/memory.ts"
import { openUmbra } from "../../src/umbra.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { chain, counting, expectSound, graphOf } from "./fork-stage.ts"
import { flow, gate, open, openOn, soon } from "./stage.ts"

describe("forks", () => {
  it("runs what did not complete, and takes over the rest", async () => {
    const { work, failing, take } = counting()
    const umbra = await open({ handlers: [work] })
    failing.add("c")
    const origin = await umbra.submit(chain, { a: "x" }, { labels: { team: "shop" }, priority: 3 })
    expect(await origin.wait()).toMatchObject({ status: "FAILED", forked_from: null, definition: null })
    expect(take()).toEqual(["a", "b", "c"])
    failing.clear()
    const fork = await umbra.fork(origin.id)
    const ended = await fork.wait()
    expect(ended).toMatchObject({
      ...{ status: "COMPLETED", output: { c: "x-b-c", a: "x" }, forked_from: origin.id },
      ...{ workflow_version: 1, labels: { team: "shop" }, priority: 3 },
    })
    expect(take()).toEqual(["c"])
    expect(jobPartition(fork.id)).toBe(jobPartition(origin.id))
    const { nodes, forked_from } = await graphOf(umbra, fork.id)
    expect(forked_from).toBe(origin.id)
    expect(nodes.a).toMatchObject({ status: "COMPLETED", reused_from: origin.id, incoming: 0 })
    expect(nodes.c).not.toHaveProperty("reused_from")
    expect(await umbra.node(fork.id, "b")).toMatchObject({ output: "x-b", attempts: [], attempts_total: 0 })
    expect((await umbra.jobs({ forkedFrom: origin.id })).map(({ job_id }) => job_id)).toEqual([fork.id])
    await expectSound(umbra, fork.id)
  })

  it("shows where lists and skipped nodes come from; only set outputs are pinned", async () => {
    const { work, take } = counting()
    const umbra = await open({ handlers: [work] })
    const nodes = flow([
      { id: "skipped", handler: "work", when: "{{ false }}" },
      { id: "each", handler: "work", for_each: "{{ [1, 2] }}", config: { value: "{{ item }}" } },
      { id: "empty", handler: "work", for_each: "{{ [] }}" },
      { id: "set", handler: "work" },
    ])
    const origin = await umbra.submit(nodes)
    await origin.wait()
    take()
    const marks = async (id: string) => {
      const { nodes } = await graphOf(umbra, id)
      return Object.entries(nodes).map(([id, node]) => [id, node.reused_from ?? null, node.pinned ?? false])
    }
    const fork = await umbra.fork(origin.id, { overrides: { set: { output: 1 } }, items: { each: [1] } })
    await fork.wait()
    expect(take()).toEqual(["each"])
    expect(await marks(fork.id)).toEqual([
      ["skipped", origin.id, false],
      ["each", null, false],
      ["empty", origin.id, false],
      ["set", null, true],
    ])
    await expectSound(umbra, fork.id)
    // Its items are results of two jobs.
    const again = await umbra.fork(fork.id, { from: ["set"] })
    await again.wait()
    expect((await marks(again.id)).slice(0, 3)).toEqual([
      ["skipped", fork.id, false],
      ["each", fork.id, false],
      ["empty", fork.id, false],
    ])
    await expectSound(umbra, again.id)
  })

  it("runs the named nodes and what depends on them", async () => {
    const { work, take } = counting()
    const umbra = await open({ handlers: [work] })
    const origin = await umbra.submit(chain, { a: "x" })
    await origin.wait()
    take()
    const fork = await umbra.fork(origin.id, { from: ["b"] })
    expect((await fork.wait()).output).toEqual({ c: "x-b-c", a: "x" })
    expect(take()).toEqual(["b", "c"])
    await expectSound(umbra, fork.id)
  })

  it("sets outputs without running their nodes, also before their dependencies have ended", async () => {
    const { work, take } = counting()
    const umbra = await open({ handlers: [work] })
    const origin = await umbra.submit(chain, { a: "x" })
    await origin.wait()
    take()
    const fork = await umbra.fork(origin.id, { from: ["a"], overrides: { b: { output: { pinned: true } } } })
    expect(await fork.wait()).toMatchObject({
      status: "COMPLETED",
      output: { c: '{"pinned":true}-c', a: "x" },
    })
    expect(take()).toEqual(["a", "c"])
    const { nodes } = await graphOf(umbra, fork.id)
    expect(nodes.b).toMatchObject({ status: "COMPLETED", pinned: true, incoming: 0 })
    await expectSound(umbra, fork.id)
    const again = await umbra.fork(fork.id, { from: ["c"] })
    expect((await again.wait()).output).toEqual({ c: '{"pinned":true}-c', a: "x" })
    expect(take()).toEqual(["c"])
    await expectSound(umbra, again.id)
  })

  it("runs a changed config as a definition of its own", async () => {
    const { work, take } = counting()
    const umbra = await open({ handlers: [work] })
    const origin = await umbra.submit(chain, { a: "x" })
    await origin.wait()
    take()
    const fork = await umbra.fork(origin.id, { overrides: { b: { config: { value: "{{ a }}-B" } } } })
    const ended = await fork.wait()
    expect(ended).toMatchObject({ workflow: "flow", workflow_version: null, output: { c: "x-B-c", a: "x" } })
    expect(ended.definition).toMatch(/^[0-9a-f]{64}$/)
    expect(take()).toEqual(["b", "c"])
    await expectSound(umbra, fork.id)
    expect(await umbra.workflow({ owner: "local", name: "flow" })).toMatchObject({ version: 1 })
    const again = await umbra.fork(fork.id, { from: ["c"] })
    expect(await again.wait()).toMatchObject({ definition: ended.definition, output: { c: "x-B-c" } })
    expect(take()).toEqual(["c"])
  })

  it("completes at once when nothing is left to run", async () => {
    const { work, take } = counting()
    const umbra = await open({ handlers: [work] })
    const origin = await umbra.submit(
      { ...chain, output: "{{ nodes[input.which] }}" },
      { a: "x", which: "no" },
    )
    expect(await origin.wait()).toMatchObject({ status: "FAILED" })
    take()
    const fork = await umbra.fork(origin.id, { workflow: { ...chain, output: "{{ c }}!" } })
    expect(await fork.wait()).toMatchObject({ status: "COMPLETED", output: "x-b-c!" })
    const wrong = await umbra.fork(origin.id, { workflow: { ...chain, output: "{{ c.no.more }}" } })
    expect(await wrong.wait()).toMatchObject({ status: "FAILED", error: { code: "E201" } })
    expect(take()).toEqual([])
    await expectSound(umbra, fork.id)
    await expectSound(umbra, wrong.id)
  })

  it("refers to the job that holds a result, never to another fork", async () => {
    const { work, failing, take } = counting()
    const umbra = await open({ handlers: [work], engine: { largeOutputBytes: 2000 } })
    const large = "y".repeat(5000)
    failing.add("c")
    const origin = await umbra.submit(chain, { a: large })
    await origin.wait()
    const middle = await umbra.fork(origin.id)
    await middle.wait()
    const last = await umbra.fork(middle.id)
    await last.wait()
    failing.clear()
    take()
    const fork = await umbra.fork(last.id)
    expect((await fork.wait()).output).toEqual({ c: `${large}-b-c`, a: large })
    expect(take()).toEqual(["c"])
    const [first] = (await umbra.queries.facts.page(fork.id, { limit: 1 })).facts
    expect(first!.fork).toMatchObject({ job_id: last.id, jobs: [origin.id] })
    const { seq } = (first!.fork as unknown as { nodes: { seq: number }[] }).nodes[0]!
    const payload = await umbra.queries.facts.payload(fork.id, { seq, field: "output" })
    expect(JSON.parse(payload.text)).toBe(large)
    await expect(
      umbra.queries.facts.payload(fork.id, { seq: seq - 1, field: "input" }),
    ).rejects.toMatchObject({
      code: "E313",
    })
    await expectSound(umbra, fork.id)
  })

  it("takes over items one by one", async () => {
    const { work, failing, take } = counting()
    const umbra = await open({ handlers: [work] })
    const list = flow(
      [
        { id: "list", handler: "transform", config: { value: ["i0", "i1", "i2", "i3"] } },
        {
          id: "each",
          handler: "work",
          for_each: "{{ list }}",
          config: { name: "{{ item }}", value: "{{ item }}!" },
          fail_fast: false,
          retry: soon,
        },
        { id: "all", handler: "transform", config: { value: "{{ each | join(',') }}" } },
      ],
      { output: "{{ all }}" },
    )
    failing.add("i2")
    const origin = await umbra.submit(list)
    expect(await origin.wait()).toMatchObject({ status: "FAILED" })
    failing.clear()
    take()
    const fork = await umbra.fork(origin.id)
    expect((await fork.wait()).output).toBe("i0!,i1!,i2!,i3!")
    expect(take()).toEqual(["i2"])
    const { items } = await umbra.items(fork.id, "each")
    expect(items.map(item => item.reused_from ?? null)).toEqual([origin.id, origin.id, null, origin.id])
    await expectSound(umbra, fork.id)
    const some = await umbra.fork(fork.id, { items: { each: [0, 3] } })
    expect((await some.wait()).output).toBe("i0!,i1!,i2!,i3!")
    expect(take()).toEqual(["i0", "i3"])
    await expectSound(umbra, some.id)
    const [first] = (await umbra.queries.facts.page(some.id, { limit: 1 })).facts
    expect((first!.fork as unknown as { jobs: string[] }).jobs.sort()).toEqual([origin.id, fork.id].sort())
    const whole = await umbra.fork(some.id, { from: ["all"] })
    expect((await whole.wait()).output).toBe("i0!,i1!,i2!,i3!")
    expect(take()).toEqual([])
    await expectSound(umbra, whole.id)
  })

  it("runs nodes that read what changed of the input", async () => {
    const { work, take } = counting()
    const other = defineHandler({
      name: "other",
      effects: false,
      run: (_, ctx) => (ctx.input as { b: Json }).b,
    })
    const umbra = await open({ handlers: [work, other] })
    const reading = flow([
      { id: "a", handler: "work", config: { value: "{{ input.a }}" } },
      { id: "b", handler: "work", config: { value: "{{ input.b }}" } },
      { id: "own", handler: "other", config: {} },
      { id: "all", handler: "input" },
    ])
    const origin = await umbra.submit(reading, { a: 1, b: 2 })
    await origin.wait()
    take()
    const preview = await umbra.previewFork(origin.id, { input: { a: 1, b: 3 } })
    expect(preview.will_run.map(({ node, reason }) => [node, reason])).toEqual([
      ["b", { code: "input_changed", paths: ["input.b"] }],
      ["own", { code: "handler_reads_input" }],
      ["all", { code: "handler_reads_input" }],
    ])
    const fork = await umbra.fork(origin.id, { input: { a: 1, b: 3 }, reuse: ["own"] })
    expect((await fork.wait()).output).toEqual({ a: 1, b: 3, own: 2, all: { a: 1, b: 3 } })
    expect(take()).toEqual(["b"])
  })

  it("continues child jobs that did not complete, each from what it has done", async () => {
    const { work, failing, take } = counting()
    const umbra = await open({ handlers: [work] })
    await umbra.register(
      flow(
        [
          { id: "first", handler: "work", config: { name: "first {{ input }}" } },
          {
            id: "second",
            handler: "work",
            config: { name: "second {{ input }}", value: "{{ first }}, {{ input }}" },
          },
        ],
        { name: "child", output: "{{ second }}" },
      ),
    )
    const parent = flow(
      [
        { id: "list", handler: "transform", config: { value: ["x", "y"] } },
        {
          id: "each",
          handler: "workflow",
          for_each: "{{ list }}",
          config: { workflow: "child", input: "{{ item }}" },
          fail_fast: false,
        },
        { id: "one", handler: "workflow", config: { workflow: "child", input: "z" }, dependencies: ["each"] },
      ],
      { output: { each: "{{ each }}", one: "{{ one }}" } },
    )
    failing.add("second y").add("second z")
    const origin = await umbra.submit(parent)
    expect(await origin.wait()).toMatchObject({ status: "FAILED" })
    expect(take()).toEqual(["first x", "first y", "second x", "second y"])
    failing.delete("second y")
    const middle = await umbra.fork(origin.id, { confirm: { unknown: true } })
    expect(await middle.wait()).toMatchObject({ status: "FAILED" })
    expect(take()).toEqual(["first z", "second y", "second z"])
    failing.clear()
    const last = await umbra.fork(middle.id, { confirm: { unknown: true } })
    expect((await last.wait()).output).toEqual({ each: ["first x, x", "first y, y"], one: "first z, z" })
    expect(take()).toEqual(["second z"])
    const { nodes } = await graphOf(umbra, last.id)
    const child = await umbra.job(nodes.one!.child_job_id!)
    const before = (await graphOf(umbra, middle.id)).nodes.one!.child_job_id
    expect(child).toMatchObject({ parent_id: last.id, forked_from: before, status: "COMPLETED" })
    await expectSound(umbra, last.id)
    await expectSound(umbra, child.job_id)
  })

  it("continues from the store after a restart, with what it has taken over", async () => {
    const folder = mkdtempSync(join(tmpdir(), "umbra-forks-"))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const { work, failing, take } = counting()
    const held = gate("held")
    const list = flow(
      [
        { id: "a", handler: "work", config: { value: ["p", "q", "{{ input }}"] } },
        {
          id: "each",
          handler: "work",
          for_each: "{{ a }}",
          config: { name: "{{ item }}", value: "{{ item }}!" },
        },
        { id: "stop", handler: "held", dependencies: ["each"] },
        {
          id: "end",
          handler: "work",
          config: { value: "{{ each | join(',') }} {{ a[0] }}" },
          dependencies: ["stop"],
        },
      ],
      { output: "{{ end }}" },
    )
    const first = await openUmbra(folder, {
      handlers: [work, held.handler],
      engine: { largeOutputBytes: 60, drainSeconds: 0.1 },
    })
    failing.add("r")
    const origin = await first.submit(list, "r")
    await origin.wait()
    failing.clear()
    take()
    const fork = await first.fork(origin.id, {
      confirm: { unknown: true },
      overrides: { a: { config: { value: ["p", "q", "r"] } } },
    })
    await held.came(1)
    expect(take()).toEqual(["a", "p", "q", "r"])
    await first.close()
    const gone = gate("held")
    const again = await openUmbra(folder, {
      handlers: [work, gone.handler],
      engine: { largeOutputBytes: 60, drainSeconds: 0.1 },
    })
    const second = await again.fork(fork.id, { confirm: { unknown: true } })
    await gone.came(2)
    gone.open()
    expect((await again.wait(fork.id)).output).toBe("p!,q!,r! p")
    expect((await second.wait()).output).toBe("p!,q!,r! p")
    expect(take()).toEqual(["end", "end"])
    await expectSound(again, second.id)
    await again.close()
  })

  it("is decided by the engine that owns the origin, whichever process gets the request", async () => {
    const { work, failing, take } = counting()
    const store = createMemoryStore()
    const engine = await openOn(store, { handlers: [work] })
    const api = await openOn(store, { handlers: [work], roles: ["api"] })
    failing.add("c")
    const origin = await engine.submit(chain, { a: "x" })
    await origin.wait()
    failing.clear()
    take()
    const fork = await api.fork(origin.id)
    expect((await api.wait(fork.id)).output).toEqual({ c: "x-b-c", a: "x" })
    expect(take()).toEqual(["c"])
    const changed = await api.fork(origin.id, { overrides: { c: { config: { value: "{{ b }}-C" } } } })
    expect((await api.wait(changed.id)).output).toEqual({ c: "x-b-C", a: "x" })
    expect(take()).toEqual(["c"])
    await expectSound(engine, changed.id)
    await engine.delete(origin.id)
    await expect(api.fork(origin.id)).rejects.toMatchObject({ code: "E301" })
  })

  it("waits as a row while there is no place, and takes over the same", async () => {
    const { work, failing, take } = counting()
    const held = gate("held")
    const umbra = await open({
      handlers: [work, held.handler],
      engine: { maxLiveJobs: 1 },
      worker: { concurrency: 1 },
    })
    failing.add("c")
    const origin = await umbra.submit(chain, { a: "x" })
    await origin.wait()
    failing.clear()
    take()
    const busy = await umbra.submit(flow([{ id: "held", handler: "held" }], { name: "busy" }))
    await held.came(1)
    const forks = await Promise.all(Array.from({ length: 20 }, () => umbra.fork(origin.id)))
    held.open()
    for (const fork of forks) expect((await fork.wait()).output).toEqual({ c: "x-b-c", a: "x" })
    expect(take()).toEqual(Array(20).fill("c"))
    await busy.wait()
    await expectSound(umbra, forks.at(-1)!.id)
  })
})
