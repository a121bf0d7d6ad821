/** Pipelines in real processes that are stopped, ended in order, cut off from their database, and killed by a message. */
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest"
import { type Postgres, startPostgres } from "../../scripts/services/postgres.ts"
import { decodeProgress } from "../../src/core/pipeline/progress.ts"
import { openJournal } from "../../src/journal/open.ts"
import { Life } from "../crash/life.ts"
import { checkPipelines, readCalls, readContent } from "../crash/pipelines/check.ts"
import { pipelineWorkload } from "../crash/pipelines/workload.ts"
import { type TaskWorkload, writeTask } from "../crash/task.ts"
import { proxyTo } from "../engine/proxy.ts"
import { until } from "../engine/stage.ts"

let postgres: Postgres
beforeAll(async () => {
  postgres = await startPostgres({ settings: { track_commit_timestamp: "on", log_min_messages: "fatal" } })
})
afterAll(() => postgres.stop())

const SEED = 7

async function prepare(
  name: string,
  workload: TaskWorkload,
  options: { lossLimit?: number; through?: string } = {},
) {
  const folder = await mkdtemp(join(tmpdir(), "umbra-pipelines-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const journal = await openJournal(await database(name))
  onTestFinished(() => journal.close())
  const location = new URL(options.through ?? postgres.url)
  location.pathname = `/${name}`
  const { lossLimit } = options
  const task = await writeTask({
    folder,
    location: location.href,
    workload,
    ...(lossLimit === undefined ? {} : { lossLimit }),
  })
  const begin = (from = 0) => {
    const life = new Life({ task, from, to: workload.jobs.length, step: 1 })
    onTestFinished(() => life.kill().catch(() => {}))
    return life
  }
  const calls = async () =>
    (await readFile(join(folder, "messages.log"), "utf8").catch(() => "")).split("\n").length
  return { folder, journal, begin, calls, url: urlOf(name) }
}

const urlOf = (name: string) => Object.assign(new URL(postgres.url), { pathname: `/${name}` }).href

async function database(name: string): Promise<string> {
  const { default: pg } = await import("pg")
  const client = new pg.Client(postgres.url)
  await client.connect()
  await client.query(`create database ${name}`)
  await client.end()
  return urlOf(name)
}

it("P2 a process stopped past its lease and resumed calls and writes nothing that another has acknowledged", async () => {
  const workload = pipelineWorkload(SEED, 4)
  const { folder, journal, begin, calls, url } = await prepare("stopped", workload)
  const stopped = begin()
  await until("messages are under way", async () => (await calls()) > 300, 60_000)
  stopped.signal("SIGSTOP")
  const heir = begin()
  expect(await heir.says("idle", 180_000)).toBe(true)
  const resumed = { pid: stopped.pid, since: Date.now() }
  stopped.signal("SIGCONT")
  expect(await stopped.says("idle", 180_000)).toBe(true)
  await Promise.all([stopped.close(), heir.close()])
  const verdict = await checkPipelines({ journal, folder, workload, commitsAt: url, resumed })
  expect(verdict.violations).toEqual([])
}, 900_000)

it("P2 what another has taken over comes back to the process it was taken from, which continues with it", async () => {
  const workload = pipelineWorkload(SEED, 8)
  const { folder, journal, begin, calls, url } = await prepare("back", workload)
  const stopped = begin()
  await until("messages are under way", async () => (await calls()) > 300, 60_000)
  stopped.signal("SIGSTOP")
  const heir = begin(workload.jobs.length)
  const callsOf = async (pid: number) =>
    [...(await readCalls(folder)).values()].flat().filter(call => call.pid === pid).length
  await until("the other has taken over", async () => (await callsOf(heir.pid)) > 100, 60_000)
  stopped.signal("SIGCONT")
  const before = await callsOf(stopped.pid)
  await heir.close()
  expect(await stopped.says("idle", 180_000)).toBe(true)
  await stopped.close()
  expect(await callsOf(stopped.pid)).toBeGreaterThan(before)
  const { violations } = await checkPipelines({ journal, folder, workload, commitsAt: url })
  // What it had called when it was stopped, and the other did not come to, it calls again.
  expect(violations.filter(each => !each.endsWith("in one process"))).toEqual([])
}, 900_000)

it("P2 a process that is asked to end lets messages in flight end; the next continues, calls none again and suspects none", async () => {
  const workload = pipelineWorkload(SEED, 4)
  const { folder, journal, begin, calls, url } = await prepare("ended", workload)
  const first = begin()
  await until("messages are under way", async () => (await calls()) > 300, 60_000)
  await first.close()
  const executions = (await journal.listJobs({ limit: 10 }, { ms: 10_000 })).jobs.map(({ id }) => id)
  const stored = await Promise.all(executions.map(id => journal.pipelines.readExecution(id)))
  // One that had not begun has nothing.
  const begun = stored.flatMap(row =>
    row === null || row.progress === null ? [] : decodeProgress(row.progress),
  )
  expect(begun.length).toBeGreaterThan(0)
  for (const progress of begun) expect(progress).toMatchObject({ isOpen: false, suspects: [] })
  const next = begin()
  expect(await next.says("idle", 180_000)).toBe(true)
  await next.close()
  const verdict = await checkPipelines({ journal, folder, workload, commitsAt: url })
  expect(verdict.violations).toEqual([])
  expect(verdict.repeated).toBe(0)
}, 900_000)

it("P2 continues when its connections are cut and PostgreSQL is restarted under load: nothing lost, nothing doubled", async () => {
  const workload = pipelineWorkload(SEED, 6)
  const proxy = await proxyTo(postgres.url)
  onTestFinished(() => proxy.close())
  const { folder, journal, begin, calls, url } = await prepare("cut", workload, { through: proxy.url })
  const life = begin()
  for (const least of [100, 300, 600, 900]) {
    await until("messages are under way", async () => (await calls()) > least, 60_000)
    proxy.drop()
  }
  proxy.goSilent("answers")
  await delay(300)
  proxy.heal()
  proxy.drop()
  await postgres.kill("SIGINT")
  await postgres.restart()
  expect(await life.says("idle", 180_000)).toBe(true)
  await life.close()
  const verdict = await checkPipelines({ journal, folder, workload, commitsAt: url })
  expect(verdict.violations).toEqual([])
}, 900_000)

/** One at the head of the queue that takes its time, deadly ones beyond it, and one that is deadly at its second try. */
const deadly = [10, 33]
const deadlyPipeline = {
  name: "deadly",
  init: { queue: "source", body: { from: 0, job: 0, step: 100, to: 50 } },
  routes: [
    { name: "source", inbound: "source", adapters: [{ type: "numbers" }], outbound: "work" },
    {
      ...{ name: "work", inbound: "work", outbound: "store", concurrency: 5 },
      adapters: [
        { type: "slow", config: { ms: 20 } },
        { type: "flaky" },
        { type: "deadly", config: { ms: 5, at: deadly } },
      ],
      backpressure: { adaptive: false },
      error_handling: {
        retries: 2,
        backoff: { initial_seconds: 0.01, max_seconds: 0.01 },
        circuit_breaker: false,
      },
    },
    { name: "store", inbound: "store", adapters: [{ type: "sink" }] },
  ],
}

it("P4 a message that kills a process which has just taken over from one that ended in order is found too", async () => {
  const [source, work, store] = deadlyPipeline.routes
  // Longer than it takes to see that all were tried, and to end the process in order.
  const backoff = { initial_seconds: 8, max_seconds: 8, jitter: 0 }
  const definition = {
    ...deadlyPipeline,
    init: { queue: "source", body: { from: 0, job: 0, step: 100, to: 12 } },
    routes: [source, { ...work, error_handling: { retries: 2, backoff, circuit_breaker: false } }, store],
  }
  const workload = { shapes: [{ definition }], jobs: [0] }
  const { folder, journal, begin } = await prepare("again", workload, { lossLimit: 2 })
  const first = begin()
  const flaky = async () =>
    [...(await readCalls(folder).catch(() => new Map<string, never[]>())).values()].flat()
  await until(
    "all were tried",
    async () => (await flaky()).filter(({ adapter }) => adapter === "flaky").length >= 12,
    60_000,
  )
  await first.close()
  let deaths = 0
  for (; !(await begin().says("idle", 180_000)); deaths++)
    expect(deaths, "it dies again and again").toBeLessThan(8)
  const [job] = (await journal.listJobs({ limit: 1 })).jobs
  const { letters } = await readContent(journal.pipelines, job!.id)
  const blamed = letters.filter(({ error }) => (JSON.parse(error) as { code: string }).code === "E709")
  expect(blamed.map(({ body }) => (JSON.parse(body) as { n: number }).n)).toEqual([10])
}, 900_000)

it("P4 messages that kill their process are dead letters after 3 deaths each, and no neighbour is blamed", async () => {
  const workload = { shapes: [{ definition: deadlyPipeline }], jobs: [0] }
  const { folder, journal, begin } = await prepare("deadly", workload, { lossLimit: 3 })
  let deaths = 0
  for (; ; deaths++) {
    expect(deaths, "it dies again and again").toBeLessThan(20)
    const life = begin()
    if (!(await life.says("idle", 180_000))) continue
    await life.close()
    break
  }
  const [job] = (await journal.listJobs({ limit: 1 })).jobs
  expect(job!.status).toBe("COMPLETED")
  const { progress, letters } = await readContent(journal.pipelines, job!.id)
  const blamed = letters.filter(({ error }) => (JSON.parse(error) as { code: string }).code === "E709")
  expect(blamed.map(({ body }) => (JSON.parse(body) as { n: number }).n)).toEqual(deadly)
  const { done, dead, tail } = progress.routes[1]!
  expect({ done, dead, tail }).toEqual({ done: 50 - 4 - 2, dead: 4 + 2, tail: 50 })
  expect(progress.routes[2]).toMatchObject({ done: 44, dead: 0 })
  const calls = [...(await readCalls(folder)).values()].flat()
  for (const n of deadly) {
    const tries = calls.filter(({ message, adapter }) => adapter === "deadly" && message === `work:${n + 1}`)
    expect(tries.length).toBeLessThanOrEqual(5)
  }
  expect(deaths).toBeGreaterThanOrEqual(4)
}, 900_000)
