/**
 * What log lines cost: a chain whose handlers log 10 lines of 100 bytes, beside the same chain without, in alternating rounds on
 * one engine. At full load, and with 2,000 nodes a second offered. And what capturing `console` costs handlers that print nothing.
 */
import { randomUUID } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { defineHandler, openUmbra, type Umbra, type WorkflowDefinition } from "umbra"
import { databaseUrl } from "./services.ts"
import { drive, noopOutput, type Workload, workloads } from "./workloads.ts"

const ROUNDS = 7
const OFFERED_PER_SECOND = 2000
const OFFERED_SECONDS = 4
const LINES = 10
const text = "x".repeat(100)

const handlers = [
  defineHandler({ name: "noop", run: () => noopOutput }),
  defineHandler({
    name: "talk",
    run: (_, ctx) => {
      for (let line = 0; line < LINES; line++) ctx.log.info({}, text)
      return noopOutput
    },
  }),
]

export async function logs(): Promise<void> {
  const scale = Number(process.env.BENCH_SCALE ?? 1)
  const folder = await mkdtemp(join(tmpdir(), "umbra-bench-logs-"))
  const { url, drop } = await databaseUrl()
  const places = { PostgreSQL: url, "SQLite in a folder": folder }
  for (const [name, location] of Object.entries(places)) {
    console.log(
      `\n${name}: ${LINES} lines of ${text.length} bytes for each node, ${ROUNDS} alternating rounds`,
    )
    await measure(location, scale)
  }
  await drop()
  await rm(folder, { recursive: true, force: true })
}

async function measure(location: string, scale: number): Promise<void> {
  const open = (capturesConsole: boolean) =>
    openUmbra(location, { handlers, capturesConsole, worker: { concurrency: 1000 } })
  const chain = workloads(scale)[2]!
  const round = { ...chain, jobs: Math.ceil(chain.jobs / ROUNDS) }
  const umbra = await open(false)
  const [silent, talking] = [await runner(umbra, round, "noop"), await runner(umbra, round, "talk")]
  for (const run of [silent, talking]) await drive(round, run)
  report(
    "chain of 10, 100 in flight, with lines",
    await ratios(
      () => rate(round, talking),
      () => rate(round, silent),
    ),
    0.6,
  )
  report(
    `${OFFERED_PER_SECOND} nodes/s offered, with lines`,
    await ratios(
      () => offered(round, talking),
      () => offered(round, silent),
    ),
    0.85,
  )
  await umbra.close()
  const found: [number, number][] = []
  for (let i = 0; i < ROUNDS; i++) {
    const rates: number[] = []
    for (const capturesConsole of i % 2 === 0 ? [false, true] : [true, false]) {
      const engine = await open(capturesConsole)
      const run = await runner(engine, round, "noop")
      await drive({ ...round, jobs: Math.ceil(round.jobs / 3) }, run)
      rates[capturesConsole ? 0 : 1] = await rate(round, run)
      await engine.close()
    }
    found.push(rates as [number, number])
  }
  report("chain of 10, no lines, console captured", found)
}

const rate = async (workload: Workload, run: () => Promise<void>) =>
  (await drive(workload, run)).nodesPerSecond

/** Jobs are submitted at a fixed rate; nodes per second until all of them have ended. */
async function offered(workload: Workload, run: () => Promise<void>): Promise<number> {
  const jobs = (OFFERED_PER_SECOND / workload.nodes.length) * OFFERED_SECONDS
  const begin = performance.now()
  const running: Promise<void>[] = []
  while (running.length < jobs) {
    const due = Math.min(
      jobs,
      ((performance.now() - begin) / 1000) * (OFFERED_PER_SECOND / workload.nodes.length),
    )
    while (running.length < due) running.push(run())
    await new Promise(resolve => setTimeout(resolve, 5))
  }
  await Promise.all(running)
  return (jobs * workload.nodes.length) / ((performance.now() - begin) / 1000)
}

async function ratios(one: () => Promise<number>, other: () => Promise<number>) {
  const found: [number, number][] = []
  for (let i = 0; i < ROUNDS; i++) found.push([await one(), await other()])
  return found
}

function report(name: string, found: readonly [number, number][], least?: number): void {
  const sorted = found.map(([one, other]) => one / other).sort((a, b) => a - b)
  const middle = found.map(([one]) => one).sort((a, b) => a - b)[found.length >> 1]!
  const target = least === undefined ? "" : ` (at least ${least})`
  const [low, median, high] = [sorted[0]!, sorted[sorted.length >> 1]!, sorted.at(-1)!].map(n => n.toFixed(2))
  console.log(
    `  ${name.padEnd(42)} ${middle.toFixed(0).padStart(6)} nodes/s, ratio ${median} [${low}, ${high}]${target}`,
  )
}

async function runner(umbra: Umbra, workload: Workload, handler: string): Promise<() => Promise<void>> {
  const name = `${handler}-${randomUUID().slice(0, 8)}`
  const nodes = workload.nodes.map(node => ({ ...node, handler }))
  await umbra.register({ name, nodes } as unknown as WorkflowDefinition)
  return async () => {
    const { status } = await (await umbra.submit(name, {})).wait()
    if (status !== "COMPLETED") throw new Error(`a job ended as ${status}`)
  }
}
