/** Retention on a store in memory, step by step: what each call removes, and what is left when it stops in between. */
import { describe, expect, it } from "vitest"
import { childJobId, newJobId } from "../../src/engine/ids.ts"
import type { PartitionOwner } from "../../src/engine/owner/owner.ts"
import { Retention } from "../../src/engine/recovery/retention.ts"
import type { Journal, NewJob, PartitionEpoch } from "../../src/journal/port/journal.ts"
import { createMemoryStore, type MemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { silentLog } from "../../src/log.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { batch, countAll } from "../journal/fixture.ts"

const JOBS = 100
const ROWS = 1000
const MINUTE = 60_000
const TABLES = ["jobs", "journal", "idempotency_keys", "journal_orphans", "executions", "pipeline_lineage"]

interface Call {
  readonly verb: string
  readonly asked: number
  readonly removed: number
}

/** A store with ended jobs, and engines on it that only remove. */
class Stage {
  readonly clock = new VirtualClock()
  readonly store: MemoryStore = createMemoryStore()
  readonly journal = openMemory(this.store)
  readonly calls: Call[] = []
  readonly purged: string[] = []
  /** The number of calls that still reach the store. */
  left = Number.POSITIVE_INFINITY
  #counter = 0

  async take(engine: string, partitions: readonly number[]): Promise<PartitionEpoch[]> {
    const epochs = await this.journal.readPartitions()
    const expected = partitions.map(partition => ({ partition, epoch: epochs[partition]!.epoch }))
    const taken = await this.journal.takePartitions({ engine, expected })
    await countAll(this.journal, taken)
    return taken
  }

  /** A job that ended `ago`, with a key, and with this number of facts. */
  async add(held: PartitionEpoch, over: { ago: number; facts?: number; id?: string; parentId?: string }) {
    const { ago, facts = 2, id = newJobId(held.partition, this.clock.now()), parentId = null } = over
    const finishedAt = this.clock.now() - ago
    const first = held.epoch * 2 ** 34 + this.#counter
    this.#counter += facts
    const { partition } = held
    const job: NewJob = {
      ...{ id, partition, seq: first + facts - 1, status: "COMPLETED", updatedAt: finishedAt, finishedAt },
      ...{
        wakeAt: null,
        output: null,
        error: null,
        fingerprint: null,
        owner: "o",
        workflow: "w",
        workflowVersion: 1,
        parentId,
      },
      ...{
        labels: null,
        priority: 0,
        createdAt: finishedAt,
        submittedBy: null,
        forkedFrom: null,
        definition: null,
      },
    }
    const rows = Array.from({ length: facts }, (_, n) => ({
      ...{ partition, seq: first + n, jobId: id, at: finishedAt, type: "node_completed", data: "{}" },
    }))
    await this.journal.append(batch(held, { facts: rows, newJobs: [job] }))
    await this.journal.claimKey({ owner: "o", key: id, jobId: id, fingerprint: "", createdAt: finishedAt })
    return id
  }

  /** Removes jobs that ended more than a minute ago. `live`: jobs that are in memory. */
  retention(held: readonly PartitionEpoch[], { live = new Set<string>() } = {}): Retention {
    const owner = {
      owned: new Map(held.map(each => [each.partition, each])),
      loader: {
        blockFree: (ids: readonly string[], work: (free: readonly string[]) => unknown) =>
          work(ids.filter(id => !live.has(id))),
      },
    }
    const retention = new Retention({
      ...{ retentionSeconds: 60, lineageRetentionSeconds: 60, clock: this.clock, log: silentLog },
      retentionSweepSeconds: 600,
      journal: this.#watched(),
      partitions: { all: () => held.map(({ partition }) => partition) },
      partitionOwner: owner as unknown as PartitionOwner,
    })
    retention.partitionsAdded()
    return retention
  }

  /** Lets the time pass, and every call be answered. */
  async pass(ms: number): Promise<void> {
    const until = this.clock.now() + ms
    for (;;) {
      for (let turn = 0; turn < 3; turn++) await new Promise(resolve => setImmediate(resolve))
      const next = this.clock.next
      if (next === null || next > until) break
      this.clock.advance(next - this.clock.now())
    }
    this.clock.advance(until - this.clock.now())
  }

  /** The number of rows in each table. */
  rows(): Record<string, number> {
    return Object.fromEntries(TABLES.map(table => [table, this.#count(table)]))
  }

  #count(table: string): number {
    return this.store.connection.get<{ n: number }>(`select count(*) as n from ${table}`)!.n
  }

  /** Calls through it are counted; when no more are left, they are never answered, as in a process that was killed. */
  #watched(): Journal {
    const { journal } = this
    const counted =
      <Argument, Result>(verb: string, call: (argument: Argument) => Promise<Result>) =>
      async (argument: Argument): Promise<Result> => {
        if (this.left-- <= 0) return new Promise(() => {})
        const facts = this.#count("journal")
        const result = await call(argument)
        const asked = (argument as { jobIds?: readonly string[] }).jobIds?.length ?? 0
        this.calls.push({ verb, asked, removed: facts - this.#count("journal") })
        if (verb === "purge") this.purged.push(`${result}`)
        return result
      }
    return {
      ...journal,
      endedJobs: counted("endedJobs", journal.endedJobs),
      purge: counted("purge", journal.purge),
      purgeFacts: counted("purgeFacts", journal.purgeFacts),
      purgeKeys: counted("purgeKeys", journal.purgeKeys),
      tidy: counted("tidy", journal.tidy),
    }
  }
}

const empty = {
  jobs: 0,
  journal: 0,
  idempotency_keys: 0,
  journal_orphans: 0,
  executions: 0,
  pipeline_lineage: 0,
}

describe("retention", () => {
  it("J17 removes at most so many jobs and facts in a step, and everything in the end", async () => {
    const stage = new Stage()
    const held = await stage.take("one", [0])
    for (let n = 0; n < 250; n++) await stage.add(held[0]!, { ago: 2 * MINUTE + n })
    await stage.add(held[0]!, { ago: 3 * MINUTE, facts: 2500 })
    for (let n = 0; n < 30; n++) await stage.add(held[0]!, { ago: 4 * MINUTE, facts: 100 })
    stage.retention(held)
    await stage.pass(MINUTE)
    expect(stage.rows()).toEqual(empty)
    expect(Math.max(...stage.calls.map(({ asked }) => asked))).toBeLessThanOrEqual(JOBS)
    expect(Math.max(...stage.calls.map(({ removed }) => removed))).toBeLessThanOrEqual(ROWS)
    expect(
      stage.calls.filter(({ verb, removed }) => verb === "purgeFacts" && removed > 0).length,
    ).toBeGreaterThan(1)
  })

  it("J17 removes what becomes old as evenly as it ended, and nothing earlier", async () => {
    const stage = new Stage()
    const [held] = await stage.take("one", [0])
    // 10 a second for a minute.
    for (let n = 0; n < 600; n++) await stage.add(held!, { ago: MINUTE - n * 100 })
    stage.retention([held!])
    const perTenSeconds: number[] = []
    for (let last = stage.rows().jobs!; perTenSeconds.length < 6; ) {
      await stage.pass(10_000)
      const { jobs } = stage.rows()
      perTenSeconds.push(last - jobs!)
      last = jobs!
    }
    expect(perTenSeconds.reduce((sum, n) => sum + n, 0)).toBeGreaterThan(500)
    for (const removed of perTenSeconds.slice(1)) {
      expect(removed).toBeGreaterThanOrEqual(50)
      expect(removed).toBeLessThanOrEqual(150)
    }
  })

  it("J17 several engines share the work, and none does what another has done", async () => {
    const stage = new Stage()
    const [first, second] = [await stage.take("one", [0, 1]), await stage.take("two", [2, 3])]
    for (let n = 0; n < 300; n++) await stage.add([...first, ...second][n % 4]!, { ago: 2 * MINUTE })
    stage.retention(first)
    stage.retention(second)
    await stage.pass(MINUTE)
    expect(stage.rows()).toEqual(empty)
    expect(stage.purged.reduce((sum, count) => sum + Number(count), 0)).toBe(300)
    expect(stage.calls.reduce((sum, { asked }) => sum + asked, 0)).toBe(300)
  })

  it("J17 passes over a child until its parent is gone, and over a job in memory", async () => {
    const stage = new Stage()
    const [held] = await stage.take("one", [0])
    const parent = await stage.add(held!, { ago: 30_000 })
    const child = await stage.add(held!, { ago: 2 * MINUTE, id: childJobId(parent, 0), parentId: parent })
    const live = await stage.add(held!, { ago: 3 * MINUTE })
    for (let n = 0; n < 150; n++) await stage.add(held!, { ago: 90_000 })
    const inMemory = new Set([live])
    stage.retention([held!], { live: inMemory })
    await stage.pass(20_000)
    const ids = () => stage.store.connection.all<{ id: string }>("select id from jobs").map(({ id }) => id)
    expect(ids().sort()).toEqual([parent, child, live].sort())
    await stage.pass(30_000)
    expect(ids()).toEqual([live])
    inMemory.clear()
    await stage.pass(30_000)
    expect(ids()).toEqual([])
  })

  it("J17 finds jobs that were stored long after their end, at the latest with the next whole walk", async () => {
    const stage = new Stage()
    const [held] = await stage.take("one", [0])
    stage.retention([held!])
    await stage.add(held!, { ago: 61_000 })
    await stage.pass(MINUTE)
    await stage.add(held!, { ago: 10 * MINUTE })
    await stage.pass(11 * MINUTE)
    expect(stage.rows()).toEqual(empty)
  })

  it("J17 an engine that is killed after any call leaves nothing that the next one does not remove", async () => {
    for (let calls = 0; calls < 16; calls++) {
      const stage = new Stage()
      const [held] = await stage.take("one", [0])
      const kept = await stage.add(held!, { ago: 1000 })
      await stage.add(held!, { ago: 2 * MINUTE, facts: 2200 })
      for (let n = 0; n < 110; n++) await stage.add(held!, { ago: 2 * MINUTE })
      stage.left = calls
      const killed = stage.retention([held!])
      await stage.pass(30_000)
      killed.stop()
      const { jobs, journal, idempotency_keys: keys, journal_orphans: orphans } = stage.rows()
      // Whoever reads now finds whole jobs or none.
      expect(keys).toBe(jobs)
      expect(journal! >= 2 * jobs! || orphans! > 0).toBe(true)
      for (const { id } of stage.store.connection.all<{ id: string }>("select id from jobs"))
        expect((await stage.journal.readFacts([id])).length).toBeGreaterThanOrEqual(2)
      stage.left = Number.POSITIVE_INFINITY
      const next = stage.retention(await stage.take("two", [0]))
      await stage.pass(25_000)
      next.stop()
      expect(stage.rows()).toEqual({ ...empty, jobs: 1, journal: 2, idempotency_keys: 1 })
      expect(await stage.journal.readFacts([kept])).toHaveLength(2)
    }
  })

  it.each([
    [5, null, 600, 1000],
    [60, null, 600, 6000],
    [null, 60, 600, 6000],
    [7 * 24 * 3600, null, 600, 60_000],
    [null, null, 600, 60_000],
    [7 * 24 * 3600, null, 30, 30_000],
  ])(
    "J17 with jobs kept for %s s, lineage for %s s and a sweep of %s s polls every %s ms while there is nothing",
    async (jobs, lineage, retentionSweepSeconds, everyMs) => {
      const [clock, journal] = [new VirtualClock(), openMemory()]
      const looks: number[] = []
      const purgeLineage = journal.pipelines.purgeLineage.bind(journal.pipelines)
      journal.pipelines.purgeLineage = async asked => {
        looks.push(clock.now())
        return purgeLineage(asked)
      }
      const retention = new Retention({
        ...{ retentionSeconds: jobs, lineageRetentionSeconds: lineage, log: silentLog, clock, journal },
        ...{ partitions: { all: () => [] }, partitionOwner: {} as PartitionOwner, retentionSweepSeconds },
      })
      retention.partitionsAdded()
      for (let second = 0; second < 185; second++) {
        clock.advance(1000)
        for (let turn = 0; turn < 3; turn++) await new Promise(resolve => setImmediate(resolve))
      }
      retention.stop()
      const gaps = looks.slice(1).map((at, n) => at - looks[n]!)
      expect(new Set(gaps)).toEqual(new Set([everyMs]))
      expect(clock.next).toBeNull()
    },
  )
})
