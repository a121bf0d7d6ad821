/**
 * Umbra beside other engines, one after another in one run, on the same PostgreSQL and Redis:
 *
 *   npm run bench -- peers [--quick] [--only NAME,NAME] [--repetitions N] [--write] [--from FILE]
 *
 * 1. Each peer runs each workload in a separate process with an empty database; bench/peers/ has the programs.
 * 2. Every result is verified there. A peer that fails is reported with its error and never left out.
 * 3. The figures are medians of the repetitions, with the least and the most, in a JSON file of the temporary folder.
 *    `--write` makes the page docs/concepts/compared.md, its plots and the table of README.md from them; with
 *    `--from FILE` from an earlier run.
 */
import { type ChildProcess, execFileSync, fork } from "node:child_process"
import { existsSync } from "node:fs"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { cpus, loadavg, tmpdir, totalmem } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Redis } from "ioredis"
import pg from "pg"
import { startRedis } from "../scripts/services/redis.ts"
import { show } from "../scripts/services/run.ts"
import { writePages } from "./peers-page.ts"
import {
  format,
  median,
  type Outcome,
  type PeerRun,
  type Repetition,
  type Run,
  workloadsOf,
} from "./peers-run.ts"
import { databaseUrl } from "./services.ts"

export interface PeersOptions {
  readonly quick: boolean
  readonly only: readonly string[]
  readonly repetitions: number
  readonly write: boolean
  readonly from: string | undefined
}

interface Peer {
  readonly name: string
  readonly title: string
  readonly module: string
  readonly parameters?: Readonly<Record<string, string>>
}

const PEERS: readonly Peer[] = [
  { name: "umbra", title: "Umbra on PostgreSQL", module: "umbra", parameters: { store: "postgres" } },
  { name: "umbra-sqlite", title: "Umbra on SQLite", module: "umbra", parameters: { store: "sqlite" } },
  { name: "pg-boss", title: "pg-boss", module: "pg-boss" },
  { name: "graphile-worker", title: "graphile-worker", module: "graphile-worker" },
  { name: "dbos", title: "DBOS", module: "dbos" },
  { name: "openworkflow", title: "openworkflow", module: "openworkflow" },
  { name: "absurd", title: "absurd", module: "absurd" },
  { name: "restate", title: "Restate", module: "restate" },
  { name: "bullmq", title: "BullMQ", module: "bullmq", parameters: { fsync: "everysec" } },
  {
    name: "bullmq-always",
    title: "BullMQ, fsync always",
    module: "bullmq",
    parameters: { fsync: "always" },
  },
]

const folder = fileURLToPath(new URL("./peers/", import.meta.url))

export async function peers(options: PeersOptions): Promise<void> {
  if (options.from !== undefined) {
    const run = JSON.parse(await readFile(options.from, "utf8")) as Run
    if (options.write) await writePages(run)
    return
  }
  const chosen = chosenPeers(options.only)
  if (options.write && chosen.length < PEERS.length)
    throw new Error("--write needs all peers, without --only")
  await install()
  const run = await measureAll(chosen, options)
  const file = join(tmpdir(), `umbra-peers-${run.startedAt.replaceAll(/[:.]/g, "-")}.json`)
  await writeFile(file, `${JSON.stringify(run, null, 2)}\n`)
  console.log(`\n  all figures: ${file}`)
  if (options.write) await writePages(run)
}

function chosenPeers(only: readonly string[]): readonly Peer[] {
  const unknown = only.filter(name => !PEERS.some(peer => peer.name === name))
  if (unknown.length > 0)
    throw new Error(
      `There is no peer ${unknown.join(", ")}; there are ${PEERS.map(({ name }) => name).join(", ")}.`,
    )
  return only.length === 0 ? PEERS : PEERS.filter(({ name }) => only.includes(name))
}

/** Installs the packages of the lock file, unless they are there. No install script runs. */
async function install(): Promise<void> {
  const installed = join(folder, "node_modules/.umbra-lock")
  const lock = await readFile(join(folder, "package-lock.json"), "utf8")
  if ((await readFile(installed, "utf8").catch(() => "")) === lock) return
  console.log("  installing the peers")
  const code = await show("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder])
  if (code !== 0) throw new Error("the peers could not be installed")
  await writeFile(installed, lock)
}

/** pg-boss and graphile-worker need Node.js 22: all peers run on the one that is installed with them. */
function nodeProgram(): string {
  const pinned = join(folder, `node_modules/node-${process.platform}-${process.arch}/bin/node`)
  return existsSync(pinned) ? pinned : process.execPath
}

async function measureAll(chosen: readonly Peer[], options: PeersOptions): Promise<Run> {
  const size = options.quick
    ? { seconds: 1, warmUpSeconds: 0.5, jobs: 2000, width: 1000, limitSeconds: 60 }
    : { seconds: 5, warmUpSeconds: 2, jobs: 20_000, width: 10_000, limitSeconds: 420 }
  const startedAt = new Date().toISOString()
  const services = await startServices()
  const machine = { ...describeMachine(), ...(await services.describe()) }
  const atStart = loadavg()[0]!
  console.log(`  ${machine.cores} × ${machine.processor}, ${machine.memoryGb} GB, Node.js ${machine.node}`)
  console.log(
    `  PostgreSQL ${machine.postgres} (a one-row commit takes ${machine.commitMs.toFixed(2)} ms), Redis ${machine.redis}`,
  )
  console.log(`  load average ${atStart.toFixed(1)}`)
  const measured: PeerRun[] = []
  try {
    for (const peer of chosen) measured.push(await measurePeer(peer, { ...size, ...options }, services))
  } finally {
    await services.stop()
  }
  const load = { atStart, atEnd: loadavg()[0]! }
  const endedAt = new Date().toISOString()
  const { quick, repetitions } = options
  return { startedAt, endedAt, quick, repetitions, ...size, machine, load, peers: measured }
}

interface Size {
  readonly seconds: number
  readonly warmUpSeconds: number
  readonly jobs: number
  readonly width: number
  readonly limitSeconds: number
  readonly repetitions: number
}

async function measurePeer(peer: Peer, size: Size, services: Services): Promise<PeerRun> {
  console.log(`\n  ${peer.title}`)
  let versions: Readonly<Record<string, string>> = {}
  let configuration = ""
  const outcomes: Record<string, Outcome> = {}
  for (const workload of workloadsOf(size)) {
    const place = await services.place(peer)
    const { shape, inFlight } = workload
    const task = {
      peer: peer.name,
      module: peer.module,
      ...peer.parameters,
      ...size,
      shape,
      inFlight,
      ...place.task,
    }
    const outcome = await measureTask(task, size, ready => {
      ;({ versions, configuration } = ready)
    })
    await place.clean()
    outcomes[workload.name] = outcome
    console.log(`    ${workload.title.padEnd(42)} ${shown(outcome, workload.unit)}`)
  }
  if (configuration !== "")
    console.log(
      `    ${Object.entries(versions)
        .map(([name, version]) => `${name.startsWith(".") ? "umbra" : name} ${version}`)
        .join(", ")}; ${configuration}`,
    )
  return { name: peer.name, title: peer.title, versions, configuration, outcomes }
}

function shown({ repetitions, error }: Outcome, unit: "steps/s" | "ms"): string {
  if (repetitions.length === 0) return `failed: ${error}`
  const values = repetitions.map(({ stepsPerSecond, p50 }) => (unit === "ms" ? p50! : stepsPerSecond))
  const text = (value: number) => format({ unit }, value)
  const accepted = repetitions.flatMap(({ acceptedPerSecond }) => acceptedPerSecond ?? [])
  return [
    `${text(median(values))} ${unit} (${text(Math.min(...values))} to ${text(Math.max(...values))})`,
    ...(accepted.length > 0 ? [`accepted ${text(median(accepted))} jobs/s`] : []),
    ...(error === null ? [] : [`then failed: ${error}`]),
  ].join(", ")
}

interface Ready {
  readonly versions: Readonly<Record<string, string>>
  readonly configuration: string
}

type Message =
  | ({ readonly type: "ready" } & Ready)
  | ({ readonly type: "repetition" } & Repetition)
  | { readonly type: "failed"; readonly message: string }

/** No peer writes a log line per step. */
const QUIET = { NODE_ENV: "production", RESTATE_LOGGING: "ERROR", NO_LOG_SUCCESS: "1" }

/** One process, in a process group of its own: what it started ends with it. */
function measureTask(task: object, size: Size, onReady: (ready: Ready) => void): Promise<Outcome> {
  const child = fork(join(folder, "process.js"), [JSON.stringify(task)], {
    execPath: nodeProgram(),
    execArgv: ["--expose-gc", "--no-warnings"],
    cwd: folder,
    env: { ...process.env, ...QUIET },
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  })
  const end = () => endGroup(child)
  process.once("exit", end)
  let output = ""
  for (const stream of [child.stdout!, child.stderr!])
    stream.on("data", chunk => {
      output = (output + String(chunk)).slice(-2000)
    })
  const repetitions: Repetition[] = []
  let error: string | null = null
  const timer = setTimeout(() => {
    error = `no end within ${size.limitSeconds} s`
    end()
  }, size.limitSeconds * 1000)
  child.on("message", (message: Message) => {
    if (message.type === "ready") onReady(message)
    else if (message.type === "failed") error ??= firstLine(message.message)
    else repetitions.push(message)
  })
  return new Promise((resolve, reject) => {
    child.once("error", reject)
    child.once("exit", end)
    child.once("close", code => {
      clearTimeout(timer)
      process.removeListener("exit", end)
      if (code !== 0) error ??= firstLine(output) || `the process ended with ${code}`
      resolve({ repetitions, error })
    })
  })
}

function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL")
  } catch {
    // The group has ended.
  }
}

const firstLine = (text: string): string => text.trim().split("\n")[0]!.slice(0, 200)

interface Services {
  describe(): Promise<{ postgres: string; redis: string; commitMs: number }>
  /** What one process of a peer may use: an empty database, an empty Redis, an empty folder. */
  place(peer: Peer): Promise<{ task: object; clean: () => Promise<void> }>
  stop(): Promise<void>
}

async function startServices(): Promise<Services> {
  const settings = { appendonly: "yes", "maxmemory-policy": "noeviction" }
  const redis = {
    everysec: await startRedis({ settings: { ...settings, appendfsync: "everysec" } }),
    always: await startRedis({ settings: { ...settings, appendfsync: "always" } }),
  }
  return {
    async describe() {
      const { url, drop } = await databaseUrl()
      const described = await describePostgres(url)
      await drop()
      return { ...described, redis: redis.everysec.version }
    },
    async place({ parameters }) {
      const { url, drop } = await databaseUrl()
      const scratch = await mkdtemp(join(tmpdir(), "umbra-peers-"))
      const { port } = redis[parameters?.fsync === "always" ? "always" : "everysec"]
      await execute(url, "checkpoint")
      return {
        task: { postgresUrl: url, redisUrl: `redis://127.0.0.1:${port}`, folder: scratch },
        async clean() {
          await drop()
          await rm(scratch, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
          await emptyRedis(port)
        },
      }
    },
    async stop() {
      await redis.everysec.stop()
      await redis.always.stop()
    },
  }
}

async function emptyRedis(port: number): Promise<void> {
  const client = new Redis(port, "127.0.0.1")
  await client.flushall()
  await client.quit()
}

async function execute(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(statement)
  await client.end()
}

async function describePostgres(url: string): Promise<{ postgres: string; commitMs: number }> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query("show server_version")
  await client.query("create table raw (id int primary key)")
  const taken: number[] = []
  for (let id = 0; id < 300; id++) {
    const at = performance.now()
    await client.query("insert into raw values ($1)", [id])
    taken.push(performance.now() - at)
  }
  await client.end()
  return { postgres: String(rows[0].server_version).split(" ")[0]!, commitMs: median(taken) }
}

function describeMachine() {
  const node = execFileSync(nodeProgram(), ["--version"], { encoding: "utf8" }).trim().slice(1)
  const processor = cpus()[0]?.model.trim() ?? "unknown processor"
  return { cores: cpus().length, processor, memoryGb: Math.round(totalmem() / 2 ** 30), node }
}
