/** Nodes that only compute begin before what made them ready is durable, and what they give is stored with it. */
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest"
import { LocalBroker } from "../../src/broker/local.ts"
import type { Batch, Journal } from "../../src/journal/port/journal.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { allFacts, jobsOf, seizePartition } from "../support/store-tables.ts"
import { collectLog, flow, gate, handler, open } from "./stage.ts"

// A turn of the worker ends after some milliseconds, and on a busy machine any two tasks may be that far apart.
beforeEach(() => {
  vi.spyOn(performance, "now").mockReturnValue(performance.now())
})
afterEach(() => {
  vi.restoreAllMocks()
})

const compute = (id: string, dependencies: string[] = []) => ({
  id,
  handler: "transform",
  config: { value: id },
  dependencies,
})

const chain = (length: number) =>
  Array.from({ length }, (_, n) => compute(`n${n}`, n === 0 ? [] : [`n${n - 1}`]))

/** Every batch that is stored, and a gate in front of the store. */
function watched(journal: Journal) {
  const batches: Batch[] = []
  const { append } = journal
  let isShut = false
  let waiting: (() => void)[] = []
  journal.append = async batch => {
    if (isShut) await new Promise<void>(resolve => waiting.push(resolve))
    batches.push(batch)
    return append.call(journal, batch)
  }
  return {
    journal,
    batches,
    ofJob: (id: string) => batches.filter(({ facts }) => facts.some(({ jobId }) => jobId === id)),
    shut() {
      isShut = true
    },
    open() {
      isShut = false
      for (const go of waiting) go()
      waiting = []
    },
  }
}

async function turns(count = 30): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(resolve => setImmediate(resolve))
}

/** Where it counts how far one goes, time stands still: on a busy machine a turn's 10 ms are soon over. */
describe("early dispatch", () => {
  it("J6 a job whose nodes only compute is one commit, with the same facts as ever", async () => {
    const store = watched(openMemory())
    const umbra = await open({ at: store.journal, clock: new VirtualClock() })
    const job = await umbra.submit(
      flow([...chain(4), { id: "end", handler: "output", dependencies: ["n3"] }]),
    )
    expect(await job.wait()).toMatchObject({ status: "COMPLETED", output: { n3: "n3" } })
    expect(store.ofJob(job.id)).toHaveLength(1)
    expect(store.ofJob(job.id)[0]!.facts.map(({ type }) => type)).toEqual([
      "job_submitted",
      ...Array.from({ length: 5 }, () => "node_completed"),
    ])
    expect((await umbra.events(job.id)).at(-1)).toMatchObject({ type: "job.completed" })
  })

  it("is for nodes that only compute: others wait until what made them ready is durable", async () => {
    const store = watched(openMemory())
    let ran = 0
    const acts = handler("acts", () => ran++)
    const umbra = await open({ at: store.journal, clock: new VirtualClock(), handlers: [acts] })
    store.shut()
    const submitted = umbra.submit(
      flow([compute("a"), { id: "b", handler: "acts" }, { id: "c", handler: "acts", dependencies: ["a"] }]),
    )
    await turns()
    expect(ran).toBe(0)
    store.open()
    const job = await submitted
    expect(await job.wait()).toMatchObject({ status: "COMPLETED" })
    expect(ran).toBe(2)
    expect(store.ofJob(job.id)[0]!.facts.map(({ type }) => type)).toEqual(["job_submitted", "node_completed"])
  })

  it("J5 results computed by an engine that had lost its partitions are discarded", async () => {
    const memory = createMemoryStore({ partitions: 4 })
    const store = watched(openMemory(memory))
    const first = await open({ at: store.journal, clock: new VirtualClock() })
    store.shut()
    const submitted = first.submit(flow(chain(3))).then(
      () => "acknowledged",
      error => error.code,
    )
    await turns()
    for (let id = 0; id < memory.partitions; id++) seizePartition(memory, id, null)
    store.open()
    expect(await submitted).toBe("E610")
    expect([jobsOf(memory), allFacts(memory)]).toEqual([[], []])
  })

  it("J10 J16 an abort and a new dispatch in one commit are performed in this order, so that the job continues", async () => {
    const store = watched(openMemory())
    const busy = gate()
    const umbra = await open({ at: store.journal, handlers: [busy.handler], worker: { concurrency: 1 } })
    const full = await umbra.submit(flow([{ id: "g", handler: "gate" }], { name: "full" }))
    await busy.came()
    // It has no slot, and waits for one.
    const job = await umbra.submit(flow([compute("a")]))
    store.shut()
    const commands = [umbra.cancel(job.id), umbra.retry(job.id)]
    await turns()
    store.open()
    await Promise.all(commands)
    busy.open()
    expect((await job.wait({ timeoutMs: 60_000 })).status).toBe("COMPLETED")
    expect((await full.wait()).status).toBe("COMPLETED")
  })

  it("a new job that cannot be dispatched is refused, not acknowledged and lost", async () => {
    const memory = createMemoryStore({ partitions: 4 })
    const { log, hasLogged } = collectLog()
    const umbra = await open({ at: openMemory(memory), log })
    const bug = vi.spyOn(LocalBroker.prototype, "dispatch").mockImplementationOnce(() => {
      throw new RangeError("a bug")
    })
    onTestFinished(() => bug.mockRestore())
    await expect(umbra.submit(flow([compute("a")]))).rejects.toThrow("a bug")
    expect(hasLogged("quarantined")).toBe(true)
    expect([jobsOf(memory), allFacts(memory)]).toEqual([[], []])
  })

  it("a long chain yields the event loop, and does not outrun the store", async () => {
    const store = watched(openMemory())
    const umbra = await open({ at: store.journal, clock: new VirtualClock() })
    let turns = 0
    let isOver = false
    const look = () => {
      turns++
      if (!isOver) setImmediate(look)
    }
    setImmediate(look)
    const job = await umbra.submit(flow(chain(6000)))
    const { status } = await job.wait()
    isOver = true
    expect(status).toBe("COMPLETED")
    // At most 500 nodes for each turn of the loop.
    expect(turns).toBeGreaterThanOrEqual(12)
    const sizes = store.ofJob(job.id).map(({ facts }) => facts.length)
    expect(sizes.length).toBeGreaterThan(5)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(501)
  })

  it("a node that computes in between costs no commit: a chain of work has one for each that acts, and one more", async () => {
    const store = watched(openMemory())
    const acts = handler("acts", () => "done")
    const umbra = await open({ at: store.journal, clock: new VirtualClock(), handlers: [acts] })
    const nodes = Array.from({ length: 5 }, (_, n) => [
      { id: `a${n}`, handler: "acts", dependencies: n === 0 ? [] : [`t${n - 1}`] },
      compute(`t${n}`, [`a${n}`]),
    ]).flat()
    const job = await umbra.submit(flow(nodes))
    expect((await job.wait()).status).toBe("COMPLETED")
    expect(store.ofJob(job.id)).toHaveLength(6)
  })

  it("a list over which something is computed takes few commits, and keeps its order", async () => {
    const store = watched(openMemory())
    const umbra = await open({ at: store.journal, clock: new VirtualClock() })
    const list = Array.from({ length: 200 }, (_, n) => n)
    const job = await umbra.submit(
      flow([
        {
          id: "each",
          handler: "transform",
          for_each: "{{ input.list }}",
          config: { value: "{{ item * 2 }}" },
        },
      ]),
      { list },
    )
    expect(await job.wait()).toMatchObject({ output: { each: list.map(n => n * 2) } })
    // The worker lets others have their turn after 64 of them, if that took it long.
    expect(store.ofJob(job.id).length).toBeLessThanOrEqual(5)
  })

  it("a computation that fails ends its job in the same commit", async () => {
    const store = watched(openMemory())
    const umbra = await open({ at: store.journal, clock: new VirtualClock() })
    const job = await umbra.submit(
      flow([{ id: "a", handler: "transform", config: { value: "{{ input.missing.deeper }}" } }]),
      {},
    )
    expect(await job.wait()).toMatchObject({ status: "FAILED" })
    expect(store.ofJob(job.id)).toHaveLength(1)
  })
})
