/** The engine beside the yardstick and a raw commit, in one run: only ratios mean something on a noisy machine. */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { defineHandler, openUmbra, type Umbra } from "../src/index.ts"
import { Baseline, pgliteStore, postgresStore, type Store, shapeOf } from "./baseline.ts"
import { databaseUrl } from "./services.ts"
import { drive, type Measured, noopOutput, type Workload, workloads } from "./workloads.ts"

interface Target {
  readonly name: string
  readonly scale: number
  readonly location: string
  readonly store: () => Store
  readonly clean: () => Promise<void>
}

const noop = defineHandler({ name: "noop", run: () => noopOutput })

export async function engine(): Promise<void> {
  const scale = Number(process.env.BENCH_SCALE ?? 1)
  for (const target of [await postgres(scale), await pglite(scale)]) {
    console.log(`\n${target.name}, default durable settings`)
    await measure(target)
    await target.clean()
  }
}

async function measure(target: Target): Promise<void> {
  const store = target.store()
  const baseline = await Baseline.open(store)
  await baseline.rawCommit(20)
  const raw = await baseline.rawCommit(200)
  console.log(`  raw one-row commit ${raw.toFixed(2)} ms`)
  const least = new Map<string, Measured>()
  // The embedded database lets one process in at a time: the yardstick first, then the engine, workload by workload where both can be open.
  const all = workloads(target.scale)
  if (target.name === "PGlite") {
    for (const workload of all)
      least.set(workload.name, await drive(workload, () => baseline.runJob(shapeOf(workload))))
    await store.close()
  }
  const umbra = await openUmbra(target.location, { handlers: [noop], worker: { concurrency: 1000 } })
  await drive({ ...all[2]!, jobs: 200 }, jobOf(umbra, all[2]!))
  for (const workload of all) {
    const shape = shapeOf(workload)
    const first = least.get(workload.name) ?? (await drive(workload, () => baseline.runJob(shape)))
    const ours = await drive(workload, jobOf(umbra, workload))
    const second =
      least.has(workload.name) || workload.jobs === 1
        ? first
        : await drive(workload, () => baseline.runJob(shape))
    report(workload, ours, best(first, second), raw)
  }
  console.log(`  memory after it ${(process.memoryUsage().rss / 1e6).toFixed(0)} MB`)
  await umbra.close()
  if (target.name !== "PGlite") await store.close()
}

/** The yardstick is run before and after, and its better half counts: a quiet moment must not flatter us. */
function best(a: Measured, b: Measured): Measured {
  return a.nodesPerSecond > b.nodesPerSecond ? a : b
}

function jobOf(umbra: Umbra, workload: Workload): () => Promise<void> {
  const definition = { name: `bench-${workload.nodes.length}`, nodes: [...workload.nodes] }
  return async () => {
    const job = await umbra.submit(definition as never, { a: 1 })
    const { status } = await job.wait()
    if (status !== "COMPLETED") throw new Error(`job ${job.id} is ${status}`)
  }
}

function report(workload: Workload, ours: Measured, least: Measured, raw: number): void {
  const share = ((100 * ours.nodesPerSecond) / least.nodesPerSecond).toFixed(0)
  const rate = `${Math.round(ours.nodesPerSecond).toLocaleString("en").padStart(8)} nodes/s ${Math.round(ours.jobsPerSecond).toLocaleString("en").padStart(7)} jobs/s`
  const perNode =
    workload.inFlight === 1 && workload.name.startsWith("chain")
      ? `, a node takes ${(ours.p50 / 11 / raw).toFixed(2)} × a raw commit`
      : ""
  console.log(`  ${workload.name.padEnd(28)} ${rate}  ${share.padStart(4)} % of the yardstick${perNode}`)
}

async function postgres(scale: number): Promise<Target> {
  const { url, drop } = await databaseUrl()
  return { name: "PostgreSQL", scale, location: url, store: () => postgresStore(url), clean: drop }
}

async function pglite(scale: number): Promise<Target> {
  const folder = await mkdtemp(join(tmpdir(), "umbra-bench-"))
  return {
    name: "PGlite",
    scale: scale / 4,
    location: join(folder, "umbra"),
    store: () => pgliteStore(join(folder, "baseline")),
    clean: () => rm(folder, { recursive: true, force: true }),
  }
}
