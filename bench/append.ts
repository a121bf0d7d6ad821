/**
 * The append alone: batches of 1, 10, 100 and 1,000 facts, small and 1 KB each, compared with a raw one-row
 * commit on the same store; and batches that also create and finish jobs. Facts are spread over all
 * partitions, as an engine's are. Also commits of a pipeline, which are its appends.
 */
import { randomUUID } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openJournal } from "../src/journal/open.ts"
import type { Batch, Journal, NewFact, NewJob, PartitionEpoch } from "../src/journal/port/journal.ts"
import { Baseline, postgresStore, type Store, sqliteStore } from "./baseline.ts"
import { PipelineSource } from "./pipeline-commits.ts"
import { databaseUrl } from "./services.ts"

const scale = Number(process.env.BENCH_SCALE ?? 1)
const small = JSON.stringify({ node: 17, attempt: 1, output: { ok: true } })
const kilobyte = JSON.stringify({ node: 17, attempt: 1, output: { text: 'a line of "text"\n'.repeat(52) } })

export async function append(): Promise<void> {
  await onPostgres()
  await onSqlite()
}

async function onPostgres(): Promise<void> {
  const { url, drop } = await databaseUrl()
  const raw = await rawCommit(postgresStore(url))
  await measureAll("PostgreSQL", await openJournal(url), raw)
  await drop()
}

async function onSqlite(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "umbra-bench-"))
  const raw = await rawCommit(sqliteStore(folder))
  await measureAll("SQLite", await openJournal(join(folder, "journal")), raw)
  await rm(folder, { recursive: true })
}

async function rawCommit(store: Store): Promise<number> {
  const baseline = await Baseline.open(store)
  await baseline.rawCommit(50)
  const ms = await baseline.rawCommit(Math.ceil(500 * scale))
  await store.close()
  return ms
}

async function measureAll(name: string, journal: Journal, raw: number): Promise<void> {
  console.log(`  ${name}: a raw one-row commit takes ${raw.toFixed(3)} ms`)
  const held = await journal.takePartitions({ engine: "bench", expected: await journal.readPartitions() })
  const source = new Source(held)
  for (const [label, data] of [
    ["small", small],
    ["1 KB", kilobyte],
  ] as const) {
    for (const size of [1, 10, 100, 1_000]) {
      const ms = await median(journal, size, () => source.facts(size, data))
      report(`${label} facts, ${size} to a batch`, ms, size, raw)
    }
  }
  for (const size of [1, 100, 1_000]) {
    const jobs: NewJob[][] = []
    const made = await median(journal, size, () => source.newJobs(size, jobs))
    report(`new jobs, ${size} to a batch`, made, size, raw)
    const ended = await median(journal, size, () => source.endedJobs(jobs.shift()!))
    report(`ended jobs, ${size} to a batch`, ended, size, raw)
  }
  const pipeline = new PipelineSource(journal, held[0]!)
  for (const size of [1, 10, 100, 500, 2_000]) {
    const ms = await pipeline.median(size, Math.ceil((size >= 500 ? 40 : 200) * scale))
    report(`messages of a pipeline, ${size}`, ms, size, raw)
  }
  await journal.close()
}

async function median(journal: Journal, size: number, next: () => Batch): Promise<number> {
  const rounds = Math.ceil((size >= 1_000 ? 30 : 300) * scale)
  const taken: number[] = []
  for (let round = 0; round < rounds; round++) {
    const batch = next()
    const begin = performance.now()
    const { held } = await journal.append(batch)
    taken.push(performance.now() - begin)
    if (held.size !== batch.fences.length) throw new Error("a fence did not hold")
  }
  return taken.sort((a, b) => a - b)[taken.length >> 1]!
}

function report(label: string, ms: number, size: number, raw: number): void {
  const rate = Math.round((size / ms) * 1_000).toLocaleString("en")
  const cells = [label.padEnd(34), `${ms.toFixed(3)} ms`.padStart(12), `${rate}/s`.padStart(12)]
  console.log(`    ${cells.join("")}   ${(ms / raw).toFixed(2)} × raw`)
}

/** Batches like those of an engine: rising seqs, a hundred running jobs, every partition in turn. */
class Source {
  readonly #held: readonly PartitionEpoch[]
  readonly #jobs: readonly string[]
  #counter = 0

  constructor(held: readonly PartitionEpoch[]) {
    this.#held = held
    this.#jobs = Array.from({ length: 100 }, () => this.#id())
  }

  facts(size: number, data: string): Batch {
    return this.#batch({ facts: Array.from({ length: size }, () => this.#fact("node_completed", data)) })
  }

  newJobs(size: number, made: NewJob[][]): Batch {
    const facts = Array.from({ length: size }, () => ({
      ...this.#fact("job_submitted", small),
      jobId: this.#id(),
    }))
    const newJobs = facts.map(job)
    made.push(newJobs)
    return this.#batch({ facts, newJobs })
  }

  endedJobs(jobs: readonly NewJob[]): Batch {
    const facts = jobs.map(({ id, partition }) => {
      const { epoch } = this.#held.find(row => row.partition === partition)!
      return {
        ...this.#fact("node_completed", small),
        jobId: id,
        partition,
        seq: epoch * 2 ** 34 + this.#counter,
      }
    })
    const changedJobs = jobs.map((before, index) => ({
      ...before,
      seq: facts[index]!.seq,
      status: "COMPLETED" as const,
      wakeAt: null,
      finishedAt: before.createdAt,
      output: small,
    }))
    return this.#batch({ facts, changedJobs })
  }

  #fact(type: string, data: string): NewFact {
    const counter = ++this.#counter
    const { partition, epoch } = this.#held[counter % this.#held.length]!
    const jobId = this.#jobs[counter % this.#jobs.length]!
    return { partition, seq: epoch * 2 ** 34 + counter, jobId, at: Date.now(), type, data }
  }

  #batch(parts: Pick<Batch, "facts"> & Partial<Batch>): Batch {
    const touched = new Set(parts.facts.map(fact => fact.partition))
    const fences = this.#held.filter(({ partition }) => touched.has(partition))
    return { fences, newJobs: [], changedJobs: [], answers: [], messages: [], ...parts }
  }

  /** Rising with time, like UUIDv7. */
  #id(): string {
    const time = (Date.now() * 64 + (++this.#counter % 64)).toString(16).padStart(12, "0").slice(-12)
    return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
  }
}

function job({ jobId, partition, seq, at }: NewFact): NewJob {
  return {
    id: jobId,
    partition,
    seq,
    status: "PROCESSING",
    updatedAt: at,
    finishedAt: null,
    wakeAt: at + 86_400_000,
    output: null,
    error: null,
    fingerprint: null,
    owner: "bench",
    workflow: "bench",
    workflowVersion: 1,
    parentId: null,
    labels: null,
    priority: 0,
    submittedBy: null,
    forkedFrom: null,
    definition: null,
    createdAt: at,
  }
}
