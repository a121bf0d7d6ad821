/** How long it takes, with the settings that everybody has: deaths and cancellations in a fleet of processes. */
import { randomUUID } from "node:crypto"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { beforeAll, expect, it, onTestFinished } from "vitest"
import { startFakeProvider } from "../../src/testing/fake-provider.ts"
import { TickClock } from "../broker/stalls.ts"
import { until } from "../engine/stage.ts"
import { ask } from "../server/stage.ts"
import { type Execution, readExecutions } from "./executions.ts"
import { Fleet } from "./fleet.ts"

const chain = Array.from({ length: 200 }, (_, n) => ({
  id: `n${n}`,
  handler: "step",
  config: { number: 1, ms: 100 },
  dependencies: n === 0 ? [] : [`n${n - 1}`],
}))

/** So long after Redis began nobody knows who else may have tasks in hand: what is nowhere is not yet lost. */
const ACQUAINTED_MS = 16_000

let folder: string
let fleet: Fleet
let startedAt: number
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "umbra-times-"))
  const fake = await startFakeProvider()
  const names = ["engine-1", "engine-2", "engine-3", "worker-1", "worker-2", "api-1"]
  fleet = await Fleet.start({ folder, fake, names, settings: {} })
  startedAt = performance.now()
  return async () => {
    await fleet.stop()
    await fake.close()
    await rm(folder, { recursive: true, force: true })
  }
})

const post = (path: string, body: unknown = {}) => ask(fleet.doors[0]!, path, { method: "POST", body })

/** So many jobs of these nodes, each at work. */
async function jobsOf(name: string, nodes: readonly object[], count: number): Promise<string[]> {
  await until(
    "its handler is known",
    async () => (await post("/workflows", { name, nodes })).status < 300,
    60_000,
  )
  const ids = await Promise.all(Array.from({ length: count }, () => submitted(name)))
  await until(
    "all are at work",
    async () => {
      const begun = new Set((await readExecutions(folder)).map(({ job }) => job))
      return ids.every(id => begun.has(id))
    },
    60_000,
  )
  return ids
}

/** As a client does it: what is answered with 503 is sent again. */
async function submitted(workflow: string): Promise<string> {
  const key = randomUUID()
  let answer = await submit(workflow, key)
  for (; answer.status === 503; answer = await submit(workflow, key)) await delay(200)
  expect(answer.status, JSON.stringify(answer.body)).toBe(201)
  return answer.body.job_id as string
}

const submit = (workflow: string, key: string) =>
  ask(fleet.doors[0]!, "/jobs", { method: "POST", body: { workflow }, headers: { "idempotency-key": key } })

/**
 * Until the last of these jobs has such a line after the time, by a clock that is as slow as this process and the API
 * process are: the fleet's other processes wait for the same two cores.
 */
async function tookUntil(
  since: number,
  jobs: readonly string[],
  isIt: (line: Execution) => boolean,
): Promise<number> {
  const clock = new TickClock(() => ask(fleet.doors[0]!, "/health", {}))
  onTestFinished(() => clock.stop())
  const hasHappened = async () => {
    const lines = (await readExecutions(folder)).filter(line => line.at >= since && isIt(line))
    const found = new Set(lines.map(({ job }) => job))
    return jobs.every(job => found.has(job))
  }
  await until("it has happened to all", hasHappened, 180_000)
  clock.stop()
  return clock.ms
}

function printTime(what: string, ms: number): void {
  console.info(`${what}: ${Math.round(ms)} ms`)
}

it("J16 S5 a cancellation reaches a handler in another process in under a second", async () => {
  const jobs = await jobsOf("patient", [{ id: "a", handler: "patient" }], 10)
  const times: number[] = []
  for (const job of jobs) {
    const asked = Date.now()
    const took = tookUntil(asked, [job], ({ what }) => what === "abort")
    await post(`/jobs/${job}/cancel`)
    times.push(await took)
  }
  printTime("the slowest of ten cancellations", Math.max(...times))
  expect(Math.max(...times)).toBeLessThan(1000)
})

it("S7 jobs of a killed engine continue within its lease, with their tasks in workers that live", async () => {
  await delay(Math.max(0, ACQUAINTED_MS - (performance.now() - startedAt)))
  const jobs = await jobsOf("chain", chain, 60)
  const killed = Date.now()
  await fleet.member("engine-1").kill()
  const took = await tookUntil(killed, jobs, ({ what }) => what === "start")
  printTime("until the last job of a killed engine continues", took)
  expect(took).toBeLessThan(13_000)
  for (const job of jobs) await post(`/jobs/${job}/cancel`)
})

it("S5 tasks of a killed worker run elsewhere within 20 s", async () => {
  const jobs = await jobsOf("patient", [{ id: "a", handler: "patient" }], 20)
  onTestFinished(async () => {
    for (const job of jobs) await post(`/jobs/${job}/cancel`)
  })
  const readAt = Date.now()
  const starts = (await readExecutions(folder)).filter(({ what }) => what === "start")
  const lines = starts.sort((a, b) => a.at - b.at)
  /** Where it runs: on a busy machine its first worker may have been taken for dead. */
  const placeOf = (id: string) => lines.findLast(({ job }) => job === id)!.pid
  // One of the two workers may have taken all of them.
  const pid = placeOf(jobs[0]!)
  const tasksOfWorker = jobs.filter(job => placeOf(job) === pid)
  const worker = ["worker-1", "worker-2"].map(name => fleet.member(name)).find(member => member.pid === pid)!
  await worker.kill()
  const took = await tookUntil(
    readAt,
    tasksOfWorker,
    line => line.what === "start" && line.pid !== pid && line.attempt > 1,
  )
  printTime(`until the last of ${tasksOfWorker.length} tasks of a killed worker runs elsewhere`, took)
  expect(took).toBeLessThan(20_000)
})
