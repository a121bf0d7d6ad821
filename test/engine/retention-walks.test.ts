/** What retention reads while thousands of old jobs wait in the store, with a key and marks each: all of it once, not again and again. */
import { describe, expect, it } from "vitest"
import type { PartitionOwner } from "../../src/engine/owner/owner.ts"
import { Retention } from "../../src/engine/recovery/retention.ts"
import type { Journal } from "../../src/journal/port/journal.ts"
import { createMemoryStore, openMemory } from "../../src/journal/sqlite/memory.ts"
import { silentLog } from "../../src/log.ts"
import { VirtualClock } from "../../src/testing/virtual-clock.ts"
import { postgresStage } from "../journal/postgres-stage.ts"

const JOBS = 2500
const MARKS = 2
const PAGE = 1000
const HOUR = 3_600_000
const PARTITIONS = Array.from({ length: 64 }, (_, partition) => partition)
/** Jobs of 2020, one in each bucket of 16 ms, which begin in 2040. */
const [BORN, START] = [Date.UTC(2020, 0, 1), Date.UTC(2040, 0, 1)]
const COLUMNS =
  "id, partition, seq, status, updated_at, wake_at, error, owner, workflow, workflow_version, priority, created_at"

const stores: Readonly<Record<string, () => Promise<Journal>>> = {
  SQLite: async () => {
    const store = createMemoryStore()
    const numbers = `with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < ${JOBS - 1})`
    const hex = `printf('%012x', ${BORN} + n * 16)`
    const id = `substr(${hex}, 1, 8) || '-' || substr(${hex}, 9) || '-7' || printf('%03x', n % 64) || '-8000-' || printf('%012x', n)`
    store.connection.run(
      `${numbers} insert into jobs (${COLUMNS}) select ${id}, n % 64, n, 'PENDING', ${BORN}, ${START}, '{"start_at":${START}}', 'ada', 'flow', 1, 0, ${BORN} + n * 16 from numbers`,
    )
    store.connection.run(
      `${numbers} insert into idempotency_keys (owner, key, job_id, fingerprint, created_at) select 'ada', n, ${id}, '', ${BORN} from numbers`,
    )
    store.connection.run(
      `${numbers} insert into job_marks (mark, place) select mark, (${BORN} / 16 + n) * 256 + n % 64 from numbers, (select 1 as mark union select 2)`,
    )
    return openMemory(store)
  },
  PostgreSQL: async () => {
    const { bystander, open } = await postgresStage()
    const journal = await open()
    const id = `(lpad(to_hex(${BORN} + n * 16), 12, '0') || '7' || lpad(to_hex(n % 64), 3, '0') || '8000' || lpad(to_hex(n), 12, '0'))::uuid`
    const from = `from generate_series(0::bigint, ${JOBS - 1}) as n`
    // A trigger writes the marks.
    await bystander.query(
      `insert into umbra.jobs (${COLUMNS}) select ${id}, n % 64, n, 'PENDING', ${BORN}, ${START}, '{"start_at":${START}}'::json, 'ada', 'flow', 1, 0, ${BORN} + n * 16 ${from}`,
    )
    await bystander.query(
      `insert into umbra.idempotency_keys (owner, key, job_id, fingerprint, created_at) select 'ada', n, ${id}, '', ${BORN} ${from}`,
    )
    const { rows } = await bystander.query("select count(*)::int as n from umbra.job_marks")
    expect(rows[0].n).toBe(MARKS * JOBS)
    return journal
  },
}

/** Counts the calls of the verbs, and knows when all were answered. */
function watched(journal: Journal) {
  const counts: Record<string, number> = {}
  const open = new Set<unknown>()
  const handler: ProxyHandler<Journal> = {
    get: (_, name) => {
      const value = Reflect.get(journal, name) as unknown
      if (typeof value !== "function") return value
      return async (...values: unknown[]) => {
        counts[String(name)] = (counts[String(name)] ?? 0) + 1
        const call = (value as (...all: unknown[]) => Promise<unknown>).apply(journal, values)
        open.add(call)
        return Promise.resolve(call).finally(() => open.delete(call))
      }
    },
  }
  const answered = async () => {
    do {
      await Promise.all(open)
      for (let turn = 0; turn < 5; turn++) await new Promise(resolve => setImmediate(resolve))
    } while (open.size > 0)
  }
  return { journal: new Proxy(journal, handler), counts, answered }
}

describe.each(Object.entries(stores))("retention on %s", (_, openStore) => {
  it("S2 reads the keys and marks of jobs that stay once in a tenth of the retention time", async () => {
    const { journal, counts, answered } = watched(await openStore())
    const clock = new VirtualClock()
    const retention = new Retention({
      ...{ retentionSeconds: 100 * 3600, lineageRetentionSeconds: 100 * 3600, retentionSweepSeconds: 600 },
      ...{ journal, clock, log: silentLog, partitions: { all: () => PARTITIONS } },
      partitionOwner: { owned: new Map() } as unknown as PartitionOwner,
    })
    retention.partitionsAdded()
    const pass = async (ms: number) => {
      const until = clock.now() + ms
      for (let steps = 0; clock.next !== null && clock.next <= until && steps < 3000; steps++) {
        clock.advance(clock.next - clock.now())
        await answered()
      }
      clock.advance(until - clock.now())
    }
    await pass(5 * HOUR)
    const walk = {
      purgeKeys: Math.floor(JOBS / PAGE) + 1,
      purgeMarks: Math.floor((MARKS * JOBS) / PAGE) + 1,
    }
    expect(counts).toMatchObject(walk)
    await pass(10 * HOUR)
    expect(counts).toMatchObject({ purgeKeys: 2 * walk.purgeKeys, purgeMarks: 2 * walk.purgeMarks })
    // New partitions may have entries that nobody has read.
    retention.partitionsAdded()
    await pass(HOUR)
    expect(counts).toMatchObject({ purgeMarks: 3 * walk.purgeMarks })
    retention.stop()
  })
})
