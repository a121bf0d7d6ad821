/**
 * Workers in separate processes: through Redis, compared with the local broker, and with BullMQ on the same
 * Redis.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { setTimeout as delay } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { defineHandler, openUmbra, type Umbra, type WorkflowDefinition } from "umbra"
import { BullBench } from "./bullmq.ts"
import { databaseUrl, redisUrl } from "./services.ts"
import { drive, glued, type Measured, noopOutput, type Workload, workloads } from "./workloads.ts"

const noop = defineHandler({ name: "noop", run: () => noopOutput })

export async function fleet(): Promise<void> {
  const scale = Number(process.env.BENCH_SCALE ?? 1)
  const all = workloads(scale)
  const chosen = [all[2]!, all[4]!].map(workload => ({ ...workload, jobs: Math.ceil(workload.jobs / 4) }))
  const redis = await redisUrl()
  const local = await openLocal()
  for (const workload of chosen)
    show(workload, "in this process", await best(workload, await jobOf(local.umbra, workload)))
  await local.close()
  for (const processes of [1, 2, 4]) {
    const ours = await openFleet(redis, processes)
    const theirs = await openBull(redis, processes)
    for (const workload of chosen) {
      const run = await jobOf(ours.umbra, workload)
      const [umbra, bull] = [
        await best(workload, run),
        await best(workload, () => theirs.bull.runJob(workload)),
      ]
      show(workload, `Redis, ${processes} worker processes`, umbra)
      show(workload, `BullMQ, ${processes} worker processes`, bull, umbra)
    }
    const glue = glued(scale)
    show(glue, `Redis, ${processes} worker processes`, await best(glue, await jobOf(ours.umbra, glue)))
    if (processes === 2) {
      await queueWait(ours.umbra)
      await takeOver(ours)
    }
    await ours.close()
    await theirs.close()
  }
}

async function best(workload: Workload, run: () => Promise<void>): Promise<Measured> {
  await drive({ ...workload, jobs: Math.ceil(workload.jobs / 4) }, run)
  const rounds = [await drive(workload, run), await drive(workload, run)]
  return rounds[0]!.nodesPerSecond > rounds[1]!.nodesPerSecond ? rounds[0]! : rounds[1]!
}

function show({ name }: Workload, where: string, measured: Measured, ours?: Measured): void {
  const rate = Math.round(measured.nodesPerSecond).toLocaleString("en")
  const ratio =
    ours === undefined ? "" : `  Umbra is ${(ours.nodesPerSecond / measured.nodesPerSecond).toFixed(2)} ×`
  console.log(
    `  ${name.padEnd(28)} ${where.padEnd(30)} ${rate.padStart(8)} nodes/s  p50 ${measured.p50.toFixed(1)} ms${ratio}`,
  )
}

/** The time from submission until the handler runs, at a load that the fleet can sustain. */
async function queueWait(umbra: Umbra): Promise<void> {
  const waits: number[] = []
  const lane = async () => {
    for (let n = 0; n < 100; n++) {
      const nodes = [{ id: "a", handler: "waited", config: { at: "{{ input.at }}" } }]
      const job = await umbra.submit({ name: "waited", nodes, output: "{{ a }}" }, { at: Date.now() })
      waits.push((await job.wait()).output as number)
      await delay(20)
    }
  }
  await Promise.all(Array.from({ length: 20 }, lane))
  waits.sort((a, b) => a - b)
  const at = (share: number) => waits[Math.floor(waits.length * share)]
  console.log(`  from submission to the handler: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms (about 500 jobs/s)`)
}

/** The time from the kill of an engine until the last of its jobs continues on another. */
async function takeOver({ umbra, args }: { umbra: Umbra; args: string[] }): Promise<void> {
  const engine = spawn(process.execPath, [
    fileURLToPath(new URL("fleet-engine.js", import.meta.url)),
    ...args,
  ])
  const [line] = (await once(engine.stdout.setEncoding("utf8"), "data")) as [string]
  const ids = JSON.parse(line) as string[]
  await delay(500)
  engine.kill("SIGKILL")
  const killed = Date.now()
  const wentOn = async (id: string) => {
    const events = await umbra.events(id)
    return events.find(({ type, at }) => type === "node.completed" && at > killed)?.at
  }
  const times: number[] = []
  for (const id of ids) {
    let at = await wentOn(id)
    for (; at === undefined; at = await wentOn(id)) await delay(20)
    times.push(at - killed)
  }
  times.sort((a, b) => a - b)
  const seconds = (ms: number) => (ms / 1000).toFixed(2)
  console.log(
    `  after SIGKILL of an engine its ${ids.length} jobs continue within ${seconds(times.at(-1)!)} s (median ${seconds(times[times.length >> 1]!)} s)`,
  )
}

async function openLocal() {
  const { url, drop } = await databaseUrl()
  const umbra = await openUmbra(url, { handlers: [noop], worker: { concurrency: 1000 } })
  return {
    umbra,
    async close() {
      await umbra.close()
      await drop()
    },
  }
}

async function openFleet(redis: string, processes: number) {
  const { url, drop } = await databaseUrl()
  const prefix = `bench-${randomUUID().slice(0, 8)}`
  const workers = Array.from({ length: processes }, () => program("fleet-worker.js", redis, prefix))
  const umbra = await openUmbra(url, { roles: ["engine"], redisUrl: redis, redis: { prefix } })
  while (umbra.workers().length < processes) await delay(50)
  return {
    umbra,
    args: [url, redis, prefix],
    async close() {
      await umbra.close()
      for (const worker of workers) worker.kill("SIGKILL")
      await drop()
    },
  }
}

async function openBull(redis: string, processes: number) {
  const workers = Array.from({ length: processes }, () => program("bullmq-worker.js", redis))
  const bull = new BullBench(redis)
  await bull.ready()
  await delay(1000)
  return {
    bull,
    async close() {
      for (const worker of workers) worker.kill("SIGKILL")
      await bull.close()
    },
  }
}

function program(file: string, ...args: string[]): ChildProcess {
  return spawn(process.execPath, [fileURLToPath(new URL(file, import.meta.url)), ...args], {
    stdio: "inherit",
  })
}

async function jobOf(umbra: Umbra, workload: Workload): Promise<() => Promise<void>> {
  const nodes = workload.nodes.map(({ id, handler, dependencies }) => ({
    id,
    handler,
    dependencies: [...dependencies],
    ...(handler === "transform" ? { config: { value: "{{ input }}" } } : {}),
  }))
  const definition: WorkflowDefinition = { name: `flow-${randomUUID().slice(0, 8)}`, nodes }
  const { name } = await umbra.register(definition)
  return async () => {
    const { status } = await (await umbra.submit(name, {})).wait()
    if (status !== "COMPLETED") throw new Error(`a job is ${status}`)
  }
}
