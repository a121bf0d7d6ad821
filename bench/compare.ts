/**
 * What a change costs: `npm run bench -- compare OLD_DIST` alternates the build in OLD_DIST with this one and prints the
 * ratio of their processor and wall time per operation. `--only NAME,NAME` chooses workloads by a part of their name,
 * `--repetitions` how many pairs of processes there are (7), `--store sqlite` the store.
 *
 * A repetition starts a process of each build, on a database of its own, and lets them work in short turns, so that both
 * meet the same load of the machine. The first turns are not counted: start-up and the compiler are left out. The ratio of
 * a repetition is the median of those of its turns. The processor time of a turn lasts until the next turn of its build
 * begins, so that work done later counts too. That of the backends of PostgreSQL is counted apart, on Linux.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import pg from "pg"
import { Connection, requestText } from "./connection.ts"
import { pipeline } from "./pipeline-load.ts"
import { drive, portOf, requests, workflows } from "./server.ts"
import { databaseUrl, redisUrl } from "./services.ts"
import { workloads } from "./workloads.ts"

export interface CompareOptions {
  readonly old: string | undefined
  readonly only: readonly string[]
  readonly repetitions: number
  readonly store: string
}

/** What one operation used, in milliseconds. */
interface Cost {
  readonly cpu: number
  readonly database: number
  readonly wall: number
}

interface Build {
  /** Works for one turn; resolves with the number of operations. */
  turn(): Promise<number>
  /** Processor time so far, in milliseconds. */
  used(): Promise<number>
  close(): Promise<void>
}

type Start = (dist: string, location: string) => Promise<Build>

const SECONDS = 0.2
const WARM = 10
const TURNS = 20
const MESSAGES = 5000
const BULK = 10_000

const ofJobs = ["single, 100 in flight", "chain of 10, 100 in flight", "fan 1-100-1, 10 in flight"]

function all(): ReadonlyMap<string, Start> {
  const found = new Map<string, Start>()
  for (const name of Object.keys(requests))
    if (name.startsWith("submit")) found.set(`server: ${name}`, serverOf(requests[name]!))
  for (const { name, nodes, inFlight } of workloads(1)) {
    if (!ofJobs.includes(name)) continue
    const definition = { name: `bench-${nodes.length}`, nodes }
    const workload = { definition, input: { a: 1 }, inFlight, seconds: SECONDS }
    found.set(`engine: ${name}`, libraryOf(workload, 1))
    found.set(`fleet: ${name}`, fleetOf(workload))
  }
  const [single] = workloads(1).filter(({ name }) => name === ofJobs[0])
  const bulk = {
    definition: { name: "bench-bulk", nodes: single!.nodes },
    ...{ input: { a: 1 }, bulk: BULK },
  }
  found.set(`engine: bulk of ${BULK}`, libraryOf(bulk, 1))
  for (const adapters of [1, 3, 10]) {
    const workload = {
      ...{ definition: pipeline(adapters), input: { count: MESSAGES } },
      ...{ inFlight: 1, seconds: SECONDS },
    }
    found.set(`pipelines: messages, ${adapters} adapters`, libraryOf(workload, MESSAGES))
  }
  return found
}

export async function compare({ old, only, repetitions, store }: CompareOptions): Promise<void> {
  if (old === undefined)
    throw new Error("Name the folder of the older build: npm run bench -- compare OLD_DIST")
  const dists = [old, join(import.meta.dirname, "..", "dist")]
  console.log(`  ratios old / new: above 1 the new build needs less; median of ${repetitions} [interval]`)
  for (const [name, start] of all()) {
    if (only.length > 0 && !only.some(part => name.includes(part))) continue
    const pairs: Cost[][][] = []
    for (let n = 0; n < repetitions; n++) pairs.push(await measurePair(start, dists, store, n % 2 === 1))
    report(name, pairs)
  }
}

async function measurePair(
  start: Start,
  dists: readonly string[],
  store: string,
  isReversed: boolean,
): Promise<Cost[][]> {
  const stores = await Promise.all(dists.map(() => (store === "sqlite" ? sqlite() : postgres())))
  const builds = await Promise.all(dists.map((dist, i) => start(dist, stores[i]!.location)))
  const used = async (i: number) => ({ cpu: await builds[i]!.used(), database: await stores[i]!.used() })
  const turns: { cpu: number; database: number; wall: number; operations: number }[][] = [[], []]
  const costs: Cost[][] = [[], []]
  for (let turn = 0; turn <= WARM + TURNS; turn++)
    for (const i of isReversed ? [1, 0] : [0, 1]) {
      const now = await used(i)
      const before = turns[i]!.at(-1)
      if (before !== undefined && turn > WARM) {
        const { operations } = before
        const [cpu, database] = [now.cpu - before.cpu, now.database - before.database]
        costs[i]!.push({
          cpu: cpu / operations,
          database: database / operations,
          wall: before.wall / operations,
        })
      }
      if (turn === WARM + TURNS) continue
      const begun = performance.now()
      const operations = await builds[i]!.turn()
      turns[i]!.push({ ...now, wall: performance.now() - begun, operations })
    }
  for (const build of builds) await build.close()
  for (const { drop } of stores) await drop()
  return costs
}

/** `pairs`: for each repetition and build the costs of its turns. */
function report(name: string, pairs: readonly (readonly (readonly Cost[])[])[]): void {
  const cells = (["cpu", "database", "wall"] as const).flatMap(part => {
    const of = (build: number) =>
      median(pairs.map(pair => median(pair[build]!.map(cost => cost[part])))) * 1000
    if (of(0) === 0) return []
    const ratios = pairs.map(([old, now]) => median(old!.map((cost, turn) => cost[part] / now![turn]![part])))
    const [low, high] = interval(ratios)
    const ratio = `${median(ratios).toFixed(3)} [${low.toFixed(2)}, ${high.toFixed(2)}]`
    return [`${part} ${of(0).toFixed(1)} → ${of(1).toFixed(1)} µs  ${ratio}`]
  })
  console.log(`  ${name.padEnd(44)} ${cells.join("   ")}`)
}

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1]!

/** Contains the true median in 95 of 100 cases: the values between the k smallest and the k largest. */
function interval(values: readonly number[]): readonly [number, number] {
  const sorted = [...values].sort((a, b) => a - b)
  let [outside, share, k] = [0, 2 ** (1 - values.length), 0]
  for (; outside + share <= 0.05; k++) {
    outside += share
    share *= (values.length - k) / (k + 1)
  }
  const first = Math.max(0, k - 1)
  return [sorted[first]!, sorted[sorted.length - 1 - first]!]
}

interface Answer {
  readonly used?: number
  readonly jobs?: number
}

function startProcess(args: readonly string[]): ChildProcess {
  const script = join(import.meta.dirname, "compare-process.js")
  const child = spawn(process.execPath, [script, ...args], { stdio: ["ignore", "pipe", "pipe", "ipc"] })
  let written = ""
  child.stderr!.setEncoding("utf8").on("data", text => {
    written += text
  })
  const kill = () => child.kill("SIGKILL")
  process.once("exit", kill)
  child.once("exit", code => {
    process.off("exit", kill)
    if (code !== 0) console.error(written)
  })
  return child
}

/** Resolves with the next message of the process. */
async function answerOf(child: ChildProcess): Promise<Answer> {
  const ended = new AbortController()
  const end = () => ended.abort(new Error("a measured process has ended"))
  child.once("exit", end)
  const [answer] = await once(child, "message", { signal: ended.signal })
  child.off("exit", end)
  return answer
}

function ask(child: ChildProcess, message: object): Promise<Answer> {
  const answer = answerOf(child)
  child.send(message)
  return answer
}

function libraryOf(workload: object, operations: number): Start {
  return async (dist, location) => {
    const child = startProcess([dist, "library", location])
    await answerOf(child)
    return {
      turn: async () => (await ask(child, { workload })).jobs! * operations,
      used: async () => (await ask(child, {})).used!,
      close: () => disconnect(child),
    }
  }
}

/** An engine and a worker in processes of their own, connected by Redis. Their processor time is counted together. */
function fleetOf(workload: object): Start {
  return async (dist, location) => {
    const fleet = [await redisUrl(), `compare-${randomUUID()}`]
    const worker = startProcess([dist, "worker", ...fleet])
    await answerOf(worker)
    const engine = startProcess([dist, "engine", location, ...fleet])
    await answerOf(engine)
    const both = [engine, worker]
    return {
      turn: async () => (await ask(engine, { workload })).jobs!,
      async used() {
        const answers = await Promise.all(both.map(child => ask(child, {})))
        return answers.reduce((sum, { used }) => sum + used!, 0)
      },
      async close() {
        for (const child of both) await disconnect(child)
      },
    }
  }
}

async function disconnect(child: ChildProcess): Promise<void> {
  const exit = once(child, "exit")
  child.disconnect()
  await exit
}

function serverOf(request: string): Start {
  return async (dist, location) => {
    const store = location.startsWith("postgres:") ? "--database-url" : "--data-dir"
    const handlers = join(import.meta.dirname, "echo-handler.js")
    const child = startProcess([dist, "serve", "--port", "0", store, location, "--handlers", handlers])
    const port = await portOf(child)
    const connections = await Promise.all(Array.from({ length: 100 }, () => Connection.open(port)))
    for (const workflow of workflows) await connections[0]!.send(requestText("POST", "/workflows", workflow))
    return {
      turn: async () => (await drive(connections, request, SECONDS)).requests,
      used: async () => (await ask(child, {})).used!,
      async close() {
        for (const connection of connections) connection.close()
        child.kill("SIGTERM")
        await once(child, "exit")
      },
    }
  }
}

interface Place {
  readonly location: string
  /** Processor time of the database's own processes so far, in milliseconds; 0 where there are none or nobody tells. */
  used(): Promise<number>
  drop(): Promise<void>
}

async function postgres(): Promise<Place> {
  const { url, drop } = await databaseUrl()
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return {
    location: url,
    async used() {
      const backends =
        "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
      const { rows } = await client.query<{ pid: number }>(backends)
      const times = await Promise.all(
        rows.map(({ pid }) => readFile(`/proc/${pid}/schedstat`, "utf8").catch(() => "0")),
      )
      return times.reduce((sum, text) => sum + Number.parseInt(text, 10) / 1e6, 0)
    },
    async drop() {
      await client.end()
      await drop()
    },
  }
}

async function sqlite(): Promise<Place> {
  const location = await mkdtemp(join(tmpdir(), "umbra-bench-"))
  return { location, used: async () => 0, drop: () => rm(location, { recursive: true }) }
}
