/** The memory of active and waiting jobs, and the gain of a second engine. */
import { spawn } from "node:child_process"
import { defineHandler, openUmbra } from "umbra"
import { databaseUrl } from "./services.ts"

const scale = Number(process.env.BENCH_SCALE ?? 1)

export async function crowd(): Promise<void> {
  await memoryPerJob()
  await twoEngines()
}

async function memoryPerJob(): Promise<void> {
  const jobs = Math.round(20_000 * scale)
  const active = await memoryOf("stuck", {}, jobs)
  const waiting = await memoryOf("sleep", { seconds: 7 * 24 * 3600 }, jobs)
  console.log(
    `  memory of a job: ${active} bytes active, ${waiting} waiting (of ${jobs.toLocaleString("en")} one-node jobs each)`,
  )
}

const stuck = defineHandler({ name: "stuck", run: () => new Promise<null>(() => {}) })

async function memoryOf(handler: string, config: object, jobs: number): Promise<string> {
  const { url, drop } = await databaseUrl()
  const umbra = await openUmbra(url, {
    handlers: [stuck],
    worker: { graceSeconds: 0.1 },
    engine: { drainSeconds: 0.1 },
  })
  await submitAll(umbra, handler, config, 1000)
  const grown = await grownBy(() => submitAll(umbra, handler, config, jobs))
  await umbra.close()
  await drop()
  return Math.max(0, Math.round(grown / jobs)).toLocaleString("en")
}

async function submitAll(
  umbra: Awaited<ReturnType<typeof openUmbra>>,
  handler: string,
  config: object,
  jobs: number,
): Promise<void> {
  const definition = { name: `crowd-${handler}`, nodes: [{ id: "n", handler, config }] } as never
  for (let i = 0; i < jobs; i += 500)
    await Promise.all(Array.from({ length: Math.min(500, jobs - i) }, () => umbra.submit(definition, {})))
  await new Promise(resolve => setTimeout(resolve, 3000))
}

/** The heap after a garbage collection: needs `node --expose-gc`, otherwise the number is arbitrary. */
async function grownBy(work: () => Promise<void>): Promise<number> {
  const settled = () => {
    globalThis.gc?.()
    return process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers
  }
  const before = settled()
  await work()
  return settled() - before
}

async function twoEngines(): Promise<void> {
  const rates: number[] = []
  for (const engines of [1, 2]) {
    const { url, drop } = await databaseUrl()
    const all = await Promise.all(Array.from({ length: engines }, () => engineProcess(url)))
    rates.push(all.reduce((sum, rate) => sum + rate, 0))
    await drop()
  }
  const [one, two] = rates as [number, number]
  console.log(
    `  chains of 10, 100 in flight per engine: one engine ${Math.round(one).toLocaleString("en")} nodes/s, two ${Math.round(two).toLocaleString("en")} (${(two / one).toFixed(2)} ×)`,
  )
}

/** An engine in a separate process; returns its nodes per second over ten seconds, after both are ready. */
function engineProcess(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [new URL("./engine-process.js", import.meta.url).pathname, url], {
      stdio: ["ignore", "pipe", "inherit"],
    })
    let text = ""
    child.stdout.on("data", chunk => {
      text += chunk
    })
    child.on("exit", code =>
      code === 0 ? resolve(Number(text)) : reject(new Error(`the engine's process ended with ${code}`)),
    )
  })
}
