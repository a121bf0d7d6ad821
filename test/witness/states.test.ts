/**
 * Random workflows on real processes, watched over HTTP while they run: no graph may show a state that the handlers' own
 * record contradicts. UMBRA_TEST_SEED plays a run again.
 */
import { mkdtemp, open, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { expect, it, onTestFinished } from "vitest"
import { startRedis } from "../../scripts/services/redis.ts"
import { type Running, startUmbra } from "../cli/umbra.ts"
import { randomFrom } from "../crash/random.ts"
import { storeFlags, storeOf } from "../server/served.ts"
import { ask } from "../server/stage.ts"
import { seed } from "../support/seed.ts"
import { type Dag, documentOf, inputOf, randomDag } from "./dags.ts"
import { Judge, type Kill, readRuns, type Sample, type Span } from "./judge.ts"

const JOBS = 12
const DEAD_SECONDS = 3
const handlers = ["--handlers", resolve(import.meta.dirname, "handlers.js")]
const now = () => Number(process.hrtime.bigint()) / 1e6

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "umbra-witness-"))
  onTestFinished(() => rm(made, { recursive: true, force: true }))
  return made
}

function start(words: readonly string[], witness: string): Running {
  const running = startUmbra(words, { env: { WITNESS_FOLDER: witness } })
  onTestFinished(async () => {
    running.kill("SIGKILL")
    await running.ended
  })
  return running
}

async function serving(words: readonly string[], witness: string): Promise<string> {
  const [, port] = await start(words, witness).wrote(/listens on http:\/\/\S+:(\d+),/)
  return `http://127.0.0.1:${port}`
}

interface Scene {
  readonly seed: number
  readonly witness: string
  /** Where the API is served. */
  readonly urls: readonly string[]
  readonly deathMs: number
  /** What happens while the jobs run; answers the processes it killed. */
  readonly disturb?: () => Promise<Kill[]>
}

/** Syncs a file again and again until the returned function is called, which returns how long each sync took. */
function watchDisk(folder: string): () => Promise<readonly Span[]> {
  let isOver = false
  const watching = (async () => {
    const syncs: Span[] = []
    const file = await open(join(folder, "synced"), "w")
    while (!isOver) {
      const askedAt = now()
      await file.write(".")
      await file.datasync()
      syncs.push({ askedAt, answeredAt: now() })
      await delay(20)
    }
    await file.close()
    return syncs
  })()
  return () => {
    isOver = true
    return watching
  }
}

async function watch({ seed, witness, urls, deathMs, disturb }: Scene): Promise<void> {
  const random = randomFrom(seed)
  const dags = new Map<string, Dag>()
  for (let index = 0; index < JOBS; index++) {
    const dag = randomDag(`random_${index}`, random)
    const body = { workflow: documentOf(dag), input: inputOf(dag) }
    const pushed = await ask(urls[0]!, "/workflows", { method: "POST", body: body.workflow })
    expect(pushed.status, JSON.stringify(pushed.body)).toBe(201)
    const submission = { workflow: dag.name, input: body.input }
    const { status, body: job } = await ask(urls[0]!, "/jobs", { method: "POST", body: submission })
    expect(status, JSON.stringify(job)).toBe(201)
    dags.set(job.job_id ?? job.id, dag)
  }
  const disk = watchDisk(witness)
  onTestFinished(async () => void (await disk()))
  const disturbed = disturb?.() ?? Promise.resolve([])
  const samples: Sample[] = []
  const unfinished = new Set(dags.keys())
  for (let round = 0; unfinished.size > 0; round++) {
    // Leaves the machine to what is watched.
    await delay(20)
    for (const job of [...unfinished]) {
      const askedAt = now()
      const { status, body } = await ask(urls[round % urls.length]!, `/jobs/${job}/graph`, {})
      expect(status).toBe(200)
      samples.push({ job, askedAt, answeredAt: now(), graph: body })
      if (["COMPLETED", "FAILED", "CANCELLED", "EXPIRED"].includes(body.status)) unfinished.delete(job)
    }
  }
  const kills = await disturbed
  const syncs = await disk()
  const runs = await readRuns(witness, kills)
  const judge = new Judge({ dags, runs, samples, syncs, kills, deathMs })
  for (const [job, dag] of dags) {
    const nodes = await Promise.all(
      dag.nodes.map(
        async ({ id }) => [id, (await ask(urls[0]!, `/jobs/${job}/nodes/${id}`, {})).body] as const,
      ),
    )
    judge.judgeEnd(job, (await ask(urls[0]!, `/jobs/${job}/graph`, {})).body, new Map(nodes))
  }
  expect(samples.length).toBeGreaterThan(JOBS)
  expect(judge.problems).toEqual([])
}

it(`in process: no graph shows what the handlers contradict (seed ${seed})`, async () => {
  const [store, witness] = [await storeOf("SQLite"), await folder()]
  const url = await serving(
    ["serve", "--port", "0", ...storeFlags(store), "--set", "concurrency=6", ...handlers],
    witness,
  )
  await watch({ seed, witness, urls: [url], deathMs: 0 })
}, 240_000)

it(`in a fleet whose worker is killed: no graph of any API process shows what the handlers contradict (seed ${seed})`, async () => {
  const [store, witness] = [await storeOf("PostgreSQL"), await folder()]
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const figures = [
    `worker_dead_seconds=${DEAD_SECONDS}`,
    ...["worker_beat_seconds=0.5", "roster_seconds=0.3", "concurrency=3", "prefetch=4"],
  ].flatMap(figure => ["--set", figure])
  const serve = (roles: string) =>
    serving(
      ["serve", "--roles", roles, "--port", "0", ...storeFlags(store), "--redis-url", redis.url, ...figures],
      witness,
    )
  const urls = [await serve("engine,api"), await serve("api")]
  const worker = async () => {
    const running = start(["worker", "--redis-url", redis.url, ...figures, ...handlers], witness)
    await running.wrote(/takes tasks/)
    return running
  }
  const [first] = [await worker(), await worker()]
  const disturb = async () => {
    await delay(2000)
    const at = now()
    first.kill("SIGKILL")
    await worker()
    return [{ pid: first.pid, at }]
  }
  await watch({ seed, witness, urls, deathMs: DEAD_SECONDS * 1000 + 2000, disturb })
}, 240_000)
