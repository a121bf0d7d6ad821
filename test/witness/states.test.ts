/**
 * Random workflows of two owners on real processes, watched over HTTP while they run: no graph may show a state that the handlers' own
 * record contradicts; at the end their log lines and artifacts are what the handlers recorded. UMBRA_TEST_SEED plays a run again.
 */
import { mkdtemp, open, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import pg from "pg"
import { expect, it, onTestFinished } from "vitest"
import { startRedis } from "../../scripts/services/redis.ts"
import { umbra } from "../cli/same-process.ts"
import { type Running, startUmbra } from "../cli/umbra.ts"
import { randomFrom } from "../crash/random.ts"
import { storeFlags, storeOf } from "../server/served.ts"
import { ask, type Store } from "../server/stage.ts"
import { seed } from "../support/seed.ts"
import { type Dag, documentOf, inputOf, randomDag } from "./dags.ts"
import {
  type Commit,
  Judge,
  type Kill,
  type ListSample,
  readRuns,
  type Sample,
  type WhySample,
} from "./judge.ts"
import { keptProblems, readKept } from "./kept.ts"

const JOBS = 12
const DEAD_SECONDS = 3
/** Reports of aborted runs, and log lines, arrive after the end of their job. */
const LATE = { interval: 500 }
const handlers = ["--handlers", resolve(import.meta.dirname, "handlers.js")]
const now = () => Number(process.hrtime.bigint()) / 1e6

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "umbra-witness-"))
  onTestFinished(() => rm(made, { recursive: true, force: true }))
  return made
}

function start(words: readonly string[], witness: string): Running {
  const env = { WITNESS_FOLDER: witness, UMBRA_ARTIFACTS: join(witness, "artifacts") }
  const running = startUmbra(words, { env })
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

/** One of each owner. */
async function tokensOf(store: Store): Promise<string[]> {
  const tokens: string[] = []
  for (const owner of ["ada", "eve"]) {
    const words = ["token", "create", "--owner", owner, "--scope", "read,submit,manage", ...storeFlags(store)]
    const { code, stdout, stderr } = await umbra(words)
    expect(code, stderr).toBe(0)
    tokens.push(stdout.trim())
  }
  return tokens
}

/**
 * Commits again and again, to measure how long the store takes: a result that waits for a disk that stalls is shown as it
 * was before.
 */
class CommitProbe {
  readonly commits: Commit[] = []
  #isStopped = false
  readonly #running: Promise<void>

  constructor(commit: () => Promise<unknown>) {
    this.#running = this.#run(commit)
  }

  async #run(commit: () => Promise<unknown>): Promise<void> {
    while (!this.#isStopped) {
      const askedAt = now()
      await commit()
      this.commits.push({ askedAt, answeredAt: now() })
      await delay(20)
    }
  }

  stop(): Promise<void> {
    this.#isStopped = true
    return this.#running
  }
}

async function commitToDisk(path: string): Promise<() => Promise<unknown>> {
  const file = await open(path, "a")
  onTestFinished(() => file.close())
  return async () => {
    await file.write("x")
    await file.datasync()
  }
}

async function commitToPostgres(location: string): Promise<() => Promise<unknown>> {
  const client = new pg.Client(location)
  await client.connect()
  onTestFinished(() => client.end())
  await client.query("create table witness (commits bigint)")
  return () => client.query("insert into witness values (1)")
}

interface Scene {
  readonly seed: number
  readonly witness: string
  /** Where the API is served. */
  readonly urls: readonly string[]
  /** Of each owner; the jobs are divided among them. */
  readonly tokens: readonly string[]
  readonly deathMs: number
  readonly commit: () => Promise<unknown>
  /** What happens while the jobs run; answers the processes it killed. */
  readonly disturb?: () => Promise<Kill[]>
}

async function watch({ seed, witness, urls, tokens, deathMs, commit, disturb }: Scene): Promise<void> {
  const probe = new CommitProbe(commit)
  const random = randomFrom(seed)
  const dags = new Map<string, Dag>()
  const tokenOf = new Map<string, string>()
  for (let index = 0; index < JOBS; index++) {
    const dag = randomDag(`random_${index}`, random)
    const body = { workflow: documentOf(dag), input: inputOf(dag) }
    const token = tokens[index % tokens.length]!
    const pushed = await ask(urls[0]!, "/workflows", { method: "POST", body: body.workflow, token })
    expect(pushed.status, JSON.stringify(pushed.body)).toBe(201)
    const submission = { workflow: dag.name, input: body.input }
    const { status, body: job } = await ask(urls[0]!, "/jobs", { method: "POST", body: submission, token })
    expect(status, JSON.stringify(job)).toBe(201)
    dags.set(job.job_id ?? job.id, dag)
    tokenOf.set(job.job_id ?? job.id, token)
  }
  const disturbed = disturb?.() ?? Promise.resolve([])
  const samples: Sample[] = []
  const lists: ListSample[] = []
  const whys: WhySample[] = []
  const unfinished = new Set(dags.keys())
  for (let round = 0; unfinished.size > 0; round++) {
    // Leaves the machine to what is watched.
    await delay(20)
    const askedAt = now()
    const token = tokens[round % tokens.length]!
    const { body: list } = await ask(urls[round % urls.length]!, `/jobs?limit=${JOBS}`, { token })
    lists.push({ askedAt, answeredAt: now(), jobs: list.jobs })
    for (const job of [...unfinished]) {
      const asker = { token: tokenOf.get(job)! }
      const askedAt = now()
      const { status, body } = await ask(urls[round % urls.length]!, `/jobs/${job}/graph`, asker)
      expect(status).toBe(200)
      samples.push({ job, askedAt, answeredAt: now(), graph: body })
      if (samples.length % 3 === 0) {
        const asked = now()
        const { body: why } = await ask(urls[round % urls.length]!, `/jobs/${job}/why`, asker)
        whys.push({ job, askedAt: asked, answeredAt: now(), reasons: why.reasons })
      }
      if (["COMPLETED", "FAILED", "CANCELLED", "EXPIRED"].includes(body.status)) unfinished.delete(job)
    }
  }
  const kills = await disturbed
  // How many samples there are depends on the machine.
  expect(whys).toHaveLength(Math.floor(samples.length / 3))
  await probe.stop()
  const { commits } = probe
  expect(samples.length).toBeGreaterThan(JOBS)
  await expect
    .poll(async () => {
      const runs = await readRuns(witness, kills)
      const judge = new Judge({ dags, runs, samples, lists, whys, commits, kills, deathMs })
      const nodesOf = new Map<string, Sample["graph"][]>()
      for (const [job, dag] of dags) {
        const asker = { token: tokenOf.get(job)! }
        const nodes = await Promise.all(
          dag.nodes.map(
            async ({ id }) => [id, (await ask(urls[0]!, `/jobs/${job}/nodes/${id}`, asker)).body] as const,
          ),
        )
        judge.judgeEnd(job, (await ask(urls[0]!, `/jobs/${job}/graph`, asker)).body, new Map(nodes))
        nodesOf.set(
          job,
          nodes.map(([, node]) => node),
        )
      }
      const records = await readKept(witness)
      expect(records.lines.size).toBeGreaterThan(JOBS)
      expect(records.puts.size).toBeGreaterThan(JOBS / 2)
      const { stallAt } = judge
      const parts = { url: urls.at(-1)!, records, tokens: tokenOf, nodes: nodesOf, kills, stallAt }
      return [...judge.problems, ...(await keptProblems(parts))]
    }, LATE)
    .toEqual([])
}

it(`in process: no graph shows what the handlers contradict (seed ${seed})`, async () => {
  const [store, witness] = [await storeOf("SQLite"), await folder()]
  const tokens = await tokensOf(store)
  const url = await serving(
    ["serve", "--port", "0", ...storeFlags(store), "--set", "concurrency=6", ...handlers],
    witness,
  )
  const commit = await commitToDisk(join(witness, "commits"))
  await watch({ seed, witness, urls: [url], tokens, deathMs: 0, commit })
})

it(`in a fleet whose worker is killed: no graph of any API process shows what the handlers contradict (seed ${seed})`, async () => {
  const [store, witness] = [await storeOf("PostgreSQL"), await folder()]
  const tokens = await tokensOf(store)
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const settings = [
    `worker_dead_seconds=${DEAD_SECONDS}`,
    ...["worker_beat_seconds=0.5", "roster_seconds=0.3", "concurrency=3", "prefetch=4"],
  ].flatMap(setting => ["--set", setting])
  const serve = (roles: string) =>
    serving(
      ["serve", "--roles", roles, "--port", "0", ...storeFlags(store), "--redis-url", redis.url, ...settings],
      witness,
    )
  const urls = [await serve("engine,api"), await serve("api")]
  const worker = async () => {
    const running = start(["worker", "--redis-url", redis.url, ...settings, ...handlers], witness)
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
  const commit = await commitToPostgres(store.location)
  await watch({ seed, witness, urls, tokens, deathMs: DEAD_SECONDS * 1000 + 2000, commit, disturb })
})
