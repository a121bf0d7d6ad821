/**
 * The journal as an interface: pages of 10 facts and of 10 events of a job with 50 MB of outputs and of one with 1,000,000
 * facts, and the graph at any moment of a job with 100,000 facts, all over HTTP: decision 49. `BENCH_SCALE` scales the
 * last two jobs. Also a day's statistics (bench/statistics.ts).
 */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { newJobId } from "../src/engine/ids.ts"
import { openJournal } from "../src/journal/open.ts"
import type { Journal, NewFact, PartitionEpoch } from "../src/journal/port/journal.ts"
import { silentLog } from "../src/log.ts"
import { startServer } from "../src/server/server.ts"
import { openUmbra } from "../src/umbra.ts"
import { databaseUrl } from "./services.ts"
import { fillDay, measured, readDay } from "./statistics.ts"

const HOUR = 3_600_000
const scale = Number(process.env.BENCH_SCALE ?? 1)
const RUNS = 30
const MOMENTS = 60
/** Facts of one append. */
const BATCH = 2000

const each = {
  name: "each",
  nodes: [{ id: "each", handler: "transform", config: { value: 1 }, for_each: "{{ [1] }}" }],
}

export async function history(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "umbra-bench-"))
  await measure("SQLite", join(folder, "umbra"))
  await rm(folder, { recursive: true, force: true })
  const database = await databaseUrl()
  await measure("PostgreSQL", database.url)
  await database.drop()
}

/** For one engine, and for sixteen, which have as many rows of each hour. */
async function statistics(store: string, location: string): Promise<void> {
  const to = Math.floor(Date.now() / HOUR) * HOUR
  for (const engines of [1, 16]) {
    const setUp = await openUmbra(location, { log: silentLog })
    for (const version of [1, 2]) await setUp.register(measured(version) as never)
    await setUp.close()
    const journal = await openJournal(location)
    const rows = await fillDay(journal, engines, to)
    await journal.close()
    const umbra = await openUmbra(location, { log: silentLog })
    await readDay(`${store}, ${engines} engines, ${rows.toLocaleString("en")} rows`, umbra, to)
    await umbra.close()
  }
}

async function measure(store: string, location: string): Promise<void> {
  await statistics(store, location)
  if (process.env.BENCH_ONLY === "statistics") return
  const setUp = await openUmbra(location, { log: silentLog })
  await setUp.register(each as never)
  await setUp.close()
  const journal = await openJournal(location)
  const [held] = await journal.takePartitions({
    engine: "bench",
    expected: (await journal.readPartitions()).slice(0, 1),
  })
  const writer = new Writer(journal, held!)
  const large = await writer.job(5000, { text: "x".repeat(10_000) })
  const long = await writer.job(Math.ceil(500_000 * scale), 1)
  const past = await writer.job(Math.ceil(50_000 * scale), 1)
  await journal.releasePartitions({ engine: "bench", held: [held!] })
  await journal.close()
  const umbra = await openUmbra(location, { log: silentLog })
  const server = await startServer({ umbra, host: "127.0.0.1", port: 0, version: "0", log: silentLog })
  try {
    for (const [name, job] of [
      ["50 MB of outputs", large],
      [`${size(long)} facts`, long],
    ] as const)
      await pages(`${store}, ${name}`, `${server.url}/jobs/${job.id}`)
    await moments(`${store}, ${size(past)} facts`, `${server.url}/jobs/${past.id}`, past.facts)
  } finally {
    await server.close()
    await umbra.close()
  }
}

const size = ({ facts }: { readonly facts: number }) => facts.toLocaleString("en")

async function pages(name: string, url: string): Promise<void> {
  const first = await times(() => get(`${url}/facts?limit=10`))
  // Any page in the middle: its cursor has the index.
  let next = (await get(`${url}/facts?limit=1000`)).next as string
  for (let page = 0; page < 4; page++)
    next = (await get(`${url}/facts?limit=1000&after=${next}`)).next as string
  const middle = await times(() => get(`${url}/facts?limit=10&after=${next}`))
  // Not at the beginning: there one fact has an event for each item of the list.
  const seq = next.split(".")[0]
  const events = await times(() => get(`${url}/events?limit=10&after=${seq}`))
  console.log(
    `  ${name}: 10 facts ${text(first)}, in the middle ${text(middle)}; 10 events there ${text(events)}`,
  )
}

async function moments(name: string, url: string, facts: number): Promise<void> {
  const delay = monitorEventLoopDelay({ resolution: 5 })
  delay.enable()
  const began = performance.now()
  const begun = process.cpuUsage()
  await get(`${url}/graph?at=%23${facts}`)
  const firstMs = performance.now() - began
  const first = process.cpuUsage(begun)
  delay.disable()
  const later: number[] = []
  const used = process.cpuUsage()
  for (let i = 0; i < MOMENTS; i++) {
    const index = 1 + Math.floor(((i * 0.618) % 1) * facts)
    const begin = performance.now()
    await get(`${url}/graph?at=%23${index}`)
    later.push(performance.now() - begin)
  }
  later.sort((a, b) => a - b)
  const { user, system } = process.cpuUsage(used)
  const cpu = (user + system) / 1000 / MOMENTS
  console.log(
    `  ${name}: first moment ${(firstMs / 1000).toFixed(2)} s (${((first.user + first.system) / 1e6).toFixed(2)} s of processor time, longest turn of the event loop ${(delay.max / 1e6).toFixed(0)} ms), ` +
      `then any moment ${text({ median: later[later.length >> 1]!, most: later.at(-1)! })}, ${cpu.toFixed(1)} ms of processor time`,
  )
}

async function get(url: string): Promise<Record<string, unknown>> {
  const response = await fetch(url)
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  return (await response.json()) as Record<string, unknown>
}

interface Times {
  readonly median: number
  readonly most: number
}

async function times(work: () => Promise<unknown>): Promise<Times> {
  const found: number[] = []
  for (let run = 0; run < RUNS; run++) {
    const began = performance.now()
    await work()
    found.push(performance.now() - began)
  }
  found.sort((a, b) => a - b)
  return { median: found[RUNS >> 1]!, most: found.at(-1)! }
}

const text = ({ median, most }: Times) => `${median.toFixed(1)} ms (at most ${most.toFixed(1)})`

/** Writes jobs with one list: two facts for each item, all but the last. */
class Writer {
  readonly #journal: Journal
  readonly #held: PartitionEpoch
  #counter = 0

  constructor(journal: Journal, held: PartitionEpoch) {
    this.#journal = journal
    this.#held = held
  }

  async job(items: number, output: unknown): Promise<{ readonly id: string; readonly facts: number }> {
    const id = newJobId(this.#held.partition, Date.now())
    const submitted = { owner: "local", workflow: "each", workflow_version: 1, input: null, priority: 0 }
    const first = [
      this.#fact(id, "job_submitted", { ...submitted, expires_at: null, ttl_seconds: null }),
      this.#fact(id, "node_expanded", { node: 0, attempt: 1, items: new Array(items).fill(0) }),
    ]
    const times = { updatedAt: 1, createdAt: 1, finishedAt: null, wakeAt: null }
    const row = {
      owner: "local",
      workflow: "each",
      workflowVersion: 1,
      parentId: null,
      labels: null,
      priority: 0,
    }
    const { partition } = this.#held
    const seq = first[0]!.seq
    const newJob = {
      id,
      partition,
      seq,
      status: "PROCESSING",
      output: null,
      error: null,
      submittedBy: null,
      ...times,
      ...row,
    }
    await this.#append(first, [newJob])
    let facts: NewFact[] = []
    for (let item = 0; item < items - 1; item++) {
      const of = { node: 0, item, attempt: 1 }
      facts.push(this.#fact(id, "item_started", { ...of, worker: "bench" }))
      facts.push(this.#fact(id, "item_completed", { ...of, ran_ms: 1, output }))
      if (facts.length < BATCH && item < items - 2) continue
      await this.#append(facts, [])
      facts = []
    }
    return { id, facts: 2 * items }
  }

  #fact(jobId: string, type: string, data: object): NewFact {
    const { partition, epoch } = this.#held
    const counter = ++this.#counter
    return {
      partition,
      seq: epoch * 2 ** 34 + counter,
      jobId,
      at: 1000 + counter,
      type,
      data: JSON.stringify(data),
    }
  }

  async #append(facts: readonly NewFact[], newJobs: readonly object[]): Promise<void> {
    const none = { changedJobs: [], answers: [], messages: [] }
    await this.#journal.append({ fences: [this.#held], facts, newJobs: newJobs as never, ...none })
  }
}
