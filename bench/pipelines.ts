/**
 * Messages through a route of 1, 3 and 10 adapters with lineage on, on the embedded database and on
 * PostgreSQL, compared with BullMQ workers chained by queues; memory over a million messages; how soon the
 * end of an execution is visible.
 */
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openUmbra, type Umbra } from "umbra"
import { BullChain } from "./bullmq-chain.ts"
import { lastCallAt, adapters as ours, pipeline } from "./pipeline-load.ts"
import { databaseUrl, redisUrl } from "./services.ts"

export async function pipelines(): Promise<void> {
  const scale = Number(process.env.BENCH_SCALE ?? 1)
  const count = Math.round(60_000 * scale)
  for (const open of [onPostgres, onSqlite]) {
    const { umbra, name, close } = await open()
    for (const adapters of [1, 3, 10]) {
      await messages(umbra, adapters, Math.ceil(count / 10))
      const rate = await messages(umbra, adapters, count)
      console.log(`  ${name.padEnd(12)} ${String(adapters).padStart(2)} adapters  ${shown(rate)} messages/s`)
    }
    await drains(umbra, name)
    if (name === "PostgreSQL") await million(umbra, Math.round(1_000_000 * scale))
    await close()
  }
  await bull(Math.ceil(count / 4))
}

const shown = (rate: number) => Math.round(rate).toLocaleString("en").padStart(8)

async function messages(umbra: Umbra, adapters: number, count: number): Promise<number> {
  const begun = performance.now()
  const job = await umbra.submit(pipeline(adapters), { count })
  const { status } = await job.wait()
  if (status !== "COMPLETED") throw new Error(`the execution is ${status}`)
  return (count * 1000) / (performance.now() - begun)
}

/** The time from the last call of the last adapter until a waiting caller sees the job COMPLETED. */
async function drains(umbra: Umbra, name: string): Promise<void> {
  const times: number[] = []
  for (let n = 0; n < 100; n++) {
    const job = await umbra.submit(pipeline(1), { count: 20 })
    await job.wait()
    times.push(performance.now() - lastCallAt())
  }
  times.sort((a, b) => a - b)
  const ms = (share: number) => times[Math.floor((times.length - 1) * share)]!.toFixed(1)
  console.log(
    `  ${name}: COMPLETED after the last call of an adapter: p50 ${ms(0.5)} ms, p99 ${ms(0.99)} ms, longest ${ms(1)} ms`,
  )
}

async function million(umbra: Umbra, count: number): Promise<void> {
  const used = () => {
    globalThis.gc?.()
    return Math.round(process.memoryUsage().heapUsed / 1e6)
  }
  const job = await umbra.submit(pipeline(3), { count })
  const heap: number[] = []
  const timer = setInterval(() => heap.push(used()), 2000)
  const begun = performance.now()
  await job.wait()
  clearInterval(timer)
  const rate = (count * 1000) / (performance.now() - begun)
  const third = Math.ceil(heap.length / 3)
  const mean = (list: number[]) =>
    Math.round(list.reduce((sum, each) => sum + each, 0) / Math.max(1, list.length))
  console.log(
    `  ${count.toLocaleString("en")} messages through 3 adapters: ${shown(rate).trim()} messages/s, heap ${mean(heap.slice(0, third))} MB in the first third, ${mean(heap.slice(-third))} MB in the last, at most ${Math.max(...heap)} MB`,
  )
}

/**
 * A message passes three queues, each with a worker: the equivalent of three steps with chained BullMQ
 * workers.
 */
async function bull(count: number): Promise<void> {
  for (const queues of [1, 3]) {
    const chain = new BullChain(await redisUrl(), queues)
    await chain.run(Math.ceil(count / 10))
    const rate = await chain.run(count)
    console.log(`  BullMQ       ${String(queues).padStart(2)} queues    ${shown(rate)} messages/s`)
    await chain.close()
  }
}

async function onPostgres() {
  const { url, drop } = await databaseUrl()
  const umbra = await openUmbra(url, { adapters: ours })
  return {
    umbra,
    name: "PostgreSQL",
    async close() {
      await umbra.close()
      await drop()
    },
  }
}

async function onSqlite() {
  const folder = await mkdtemp(join(tmpdir(), "umbra-bench-"))
  const umbra = await openUmbra(folder, { adapters: ours })
  return {
    umbra,
    name: "SQLite",
    async close() {
      await umbra.close()
      await rm(folder, { recursive: true })
    },
  }
}
