/**
 * The engine compared with the baseline and a raw commit, in one run: only ratios are meaningful on a noisy
 * machine.
 */
import { execFile } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { defineHandler, openUmbra, type Umbra, type WorkflowDefinition } from "umbra"
import { openJournal } from "../src/journal/open.ts"
import { Baseline, postgresStore, type Store, shapeOf, sqliteStore } from "./baseline.ts"
import { databaseUrl } from "./services.ts"
import { drive, type Measured, noopOutput, type Workload, workloads } from "./workloads.ts"

interface Target {
  readonly name: string
  readonly scale: number
  readonly location: string
  readonly store: () => Store
  /**
   * The time of a one-row commit on the path of the engine's appends, in milliseconds, where that differs
   * from the raw commit's path.
   */
  readonly commitOnItsWay?: () => Promise<number>
  readonly clean: () => Promise<void>
}

const noop = defineHandler({ name: "noop", run: () => noopOutput })

export async function engine(): Promise<void> {
  const scale = Number(process.env.BENCH_SCALE ?? 1)
  for (const target of [await postgres(scale), await sqlite(scale)]) {
    console.log(`\n${target.name}, default durable settings`)
    await measure(target)
    await target.clean()
  }
}

async function measure(target: Target): Promise<void> {
  const store = target.store()
  const baseline = await Baseline.open(store)
  await baseline.rawCommit(50)
  const raw = await baseline.rawCommit(300)
  const onItsWay = await target.commitOnItsWay?.()
  const thread = onItsWay === undefined ? "" : `, through the database's thread ${onItsWay.toFixed(2)} ms`
  console.log(`  raw one-row commit ${raw.toFixed(2)} ms${thread}`)
  const umbra = await openUmbra(target.location, { handlers: [noop], worker: { concurrency: 1000 } })
  const all = workloads(target.scale)
  await drive({ ...all[2]!, jobs: 200 }, await jobOf(umbra, all[2]!))
  const rates = new Map<string, number>()
  for (const workload of all) {
    // The baseline has its graph prepared; `definitions` measures compiling.
    const [shape, run] = [shapeOf(workload), await jobOf(umbra, workload)]
    const round = { ...workload, jobs: Math.ceil(workload.jobs / ROUNDS) }
    const least: Measured[] = []
    const ours: Measured[] = []
    // The first round warms up the compiler: the baseline has a hundredth of the code and is warm at once.
    if (workload.jobs > 1) for (const job of [() => baseline.runJob(shape), run]) await drive(round, job)
    for (let i = 0; i < (workload.jobs === 1 ? 2 : ROUNDS); i++) {
      least.push(await drive(round, () => baseline.runJob(shape)))
      ours.push(await drive(round, run))
    }
    report(workload, middle(ours), middle(least), onItsWay === undefined ? [raw] : [raw, onItsWay])
    rates.set(workload.name, middle(ours).nodesPerSecond)
  }
  const growth = rates.get("1,000 parallel nodes")! / rates.get("100,000 parallel nodes")!
  await bulk(umbra, baseline, all[0]!)
  console.log(`  a node of 100,000 takes ${growth.toFixed(2)} × the time of one of 1,000`)
  await umbra.close()
  await store.close()
  await largeJob(target.location)
}

/** All jobs are submitted at once; a round ends with the last job. */
async function bulk(umbra: Umbra, baseline: Baseline, single: Workload): Promise<void> {
  const workload = { ...single, name: "single, all at once", inFlight: single.jobs }
  const shape = shapeOf(workload)
  const inputs = Array.from({ length: workload.jobs }, () => ({ a: 1 }))
  await jobOf(umbra, workload)
  const ours = async (): Promise<Measured> => {
    const begun = performance.now()
    const accepted = await umbra.submitMany("bench-1", inputs)
    const ended = await Promise.all(accepted.map(({ job }) => job!.wait()))
    if (ended.some(({ status }) => status !== "COMPLETED")) throw new Error("a job of the bulk failed")
    const rate = (1000 * inputs.length) / (performance.now() - begun)
    return { nodesPerSecond: rate, jobsPerSecond: rate, p50: 0 }
  }
  const rounds: { ours: Measured; least: Measured }[] = []
  for (let i = 0; i <= ROUNDS; i++)
    rounds.push({ least: await drive(workload, () => baseline.runJob(shape)), ours: await ours() })
  // The first round warms up the compiler.
  const [, ...counted] = rounds
  report(workload, middle(counted.map(each => each.ours)), middle(counted.map(each => each.least)), [])
}

/** In a separate process, so that the memory is the engine's alone. */
async function largeJob(location: string): Promise<void> {
  const script = fileURLToPath(new URL("./large-job-process.js", import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [script, location])
  const { seconds, megabytes } = JSON.parse(stdout) as { seconds: number; megabytes: number }
  console.log(`  100,000 nodes in a separate process: ${seconds.toFixed(1)} s, ${megabytes} MB at most`)
}

/** A key is one row with one index. */
async function oneRowCommits(location: string): Promise<number> {
  const journal = await openJournal(location)
  const taken: number[] = []
  for (let i = 0; i < 400; i++) {
    const at = performance.now()
    const [key, jobId] = [String(i), randomUUID()]
    await journal.claimKey({ owner: "bench", key, jobId, fingerprint: "", createdAt: 1 })
    taken.push(performance.now() - at)
  }
  await journal.close()
  return taken.slice(100).sort((a, b) => a - b)[150]!
}

/** Alternating rounds: other load of the machine affects both. */
const ROUNDS = 5

function middle(measured: readonly Measured[]): Measured {
  return [...measured].sort((a, b) => a.nodesPerSecond - b.nodesPerSecond)[measured.length >> 1]!
}

async function jobOf(umbra: Umbra, { nodes }: Workload): Promise<() => Promise<void>> {
  const definition = { name: `bench-${nodes.length}`, nodes: [...nodes] } as WorkflowDefinition
  await umbra.register(definition)
  return async () => {
    const job = await umbra.submit(definition, { a: 1 })
    const { status } = await job.wait()
    if (status !== "COMPLETED") throw new Error(`job ${job.id} is ${status}`)
  }
}

function report(workload: Workload, ours: Measured, least: Measured, commits: readonly number[]): void {
  const share = ((100 * ours.nodesPerSecond) / least.nodesPerSecond).toFixed(0)
  const rate = `${Math.round(ours.nodesPerSecond).toLocaleString("en").padStart(8)} nodes/s ${Math.round(ours.jobsPerSecond).toLocaleString("en").padStart(7)} jobs/s`
  const perNode =
    workload.inFlight === 1 && workload.name.startsWith("chain")
      ? `, a node takes ${commits.map(commit => (ours.p50 / 11 / commit).toFixed(2)).join(" and ")} × a raw commit`
      : ""
  console.log(`  ${workload.name.padEnd(28)} ${rate}  ${share.padStart(4)} % of the baseline${perNode}`)
}

async function postgres(scale: number): Promise<Target> {
  const { url, drop } = await databaseUrl()
  return { name: "PostgreSQL", scale, location: url, store: () => postgresStore(url), clean: drop }
}

async function sqlite(scale: number): Promise<Target> {
  const folder = await mkdtemp(join(tmpdir(), "umbra-bench-"))
  return {
    name: "SQLite",
    scale: scale / 4,
    location: join(folder, "umbra"),
    store: () => sqliteStore(folder),
    commitOnItsWay: () => oneRowCommits(join(folder, "commits")),
    clean: () => rm(folder, { recursive: true, force: true }),
  }
}
