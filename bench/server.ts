/**
 * `umbra serve` over HTTP with 100 connections, compared with the same server's `GET /health` in the same
 * run.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Connection, requestText } from "./connection.ts"
import { databaseUrl } from "./services.ts"
import { measureStreams } from "./streams.ts"

const CONNECTIONS = 100
/** Alternating rounds: other load of the machine affects all three. */
const ROUNDS = 3

/** One whose node only computes, which is one commit, and one whose node runs a handler, which is two. */
export const workflows = [
  { name: "computes", nodes: [{ id: "n", handler: "transform", config: { value: 1 } }] },
  { name: "acts", nodes: [{ id: "n", handler: "echo", config: { value: 1 } }] },
]
const submitted = (workflow: string) => ({ workflow, input: { a: 1 } })
export const requests: Readonly<Record<string, string>> = {
  "GET /health": requestText("GET", "/health"),
  "submit, answered when durable": requestText("POST", "/jobs", submitted("acts")),
  "submit to COMPLETED, transform": requestText("POST", "/jobs?wait=30", submitted("computes")),
  "submit to COMPLETED, own handler": requestText("POST", "/jobs?wait=30", submitted("acts")),
}

export async function server(): Promise<void> {
  const { url, drop } = await databaseUrl()
  console.log("\nPostgreSQL, default durable settings, 100 connections")
  await measure(["--database-url", url])
  await drop()
  const other = await databaseUrl()
  await withServe(["--database-url", other.url], measureStreams)
  await other.drop()
  const folder = await mkdtemp(join(tmpdir(), "umbra-bench-"))
  console.log("\nSQLite, 100 connections")
  await measure(["--data-dir", folder])
  await rm(folder, { recursive: true, force: true })
  const second = await mkdtemp(join(tmpdir(), "umbra-bench-"))
  await withServe(["--data-dir", second], measureStreams)
  await rm(second, { recursive: true, force: true })
}

export interface Round {
  readonly requests: number
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
}

async function measure(store: readonly string[]): Promise<void> {
  const seconds = Math.max(1, 4 * Number(process.env.BENCH_SCALE ?? 1))
  const handlers = join(import.meta.dirname, "echo-handler.js")
  const { child, port } = await startServe([...store, "--handlers", handlers])
  const connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => Connection.open(port)))
  for (const workflow of workflows) await connections[0]!.send(requestText("POST", "/workflows", workflow))
  const rounds = new Map(Object.keys(requests).map(name => [name, [] as Round[]]))
  for (const request of Object.values(requests)) await drive(connections, request, 1)
  for (let round = 0; round < ROUNDS; round++)
    for (const [name, request] of Object.entries(requests))
      rounds.get(name)!.push(await drive(connections, request, seconds))
  report(rounds)
  for (const connection of connections) connection.close()
  child.kill("SIGTERM")
  await once(child, "exit")
}

async function withServe(
  store: readonly string[],
  work: (serve: { child: ChildProcess; port: number }) => Promise<void>,
): Promise<void> {
  const serve = await startServe(store)
  try {
    await work(serve)
  } finally {
    serve.child.kill("SIGTERM")
    await once(serve.child, "exit")
  }
}

export async function drive(
  connections: readonly Connection[],
  request: string,
  seconds: number,
): Promise<Round> {
  const latencies: number[] = []
  const begin = performance.now()
  const lane = async (connection: Connection): Promise<void> => {
    for (let at = begin; at - begin < seconds * 1000; ) {
      const status = await connection.send(request)
      if (status >= 300) throw new Error(`the server answered ${status}`)
      const now = performance.now()
      latencies.push(now - at)
      at = now
    }
  }
  await Promise.all(connections.map(lane))
  const perSecond = (1000 * latencies.length) / (performance.now() - begin)
  latencies.sort((a, b) => a - b)
  const share = (part: number) => latencies[Math.floor(latencies.length * part)]!
  return { requests: latencies.length, perSecond, p50: share(0.5), p99: share(0.99) }
}

function report(rounds: ReadonlyMap<string, readonly Round[]>): void {
  const middle = (found: readonly Round[]) =>
    [...found].sort((a, b) => a.perSecond - b.perSecond)[found.length >> 1]!
  const health = middle(rounds.get("GET /health")!).perSecond
  for (const [name, found] of rounds) {
    const { perSecond, p50, p99 } = middle(found)
    const rate = Math.round(perSecond).toLocaleString("en").padStart(7)
    const share = ((100 * perSecond) / health).toFixed(0).padStart(4)
    console.log(
      `  ${name.padEnd(32)} ${rate}/s ${share} % of health   p50 ${p50.toFixed(1)} ms  p99 ${p99.toFixed(1)} ms`,
    )
  }
}

export async function startServe(store: readonly string[]): Promise<{ child: ChildProcess; port: number }> {
  const main = join(import.meta.dirname, "..", "dist/cli/main.js")
  const child = spawn(process.execPath, [main, "serve", "--port", "0", ...store], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  return { child, port: await portOf(child) }
}

/** The port that `umbra serve` prints when it listens. */
export async function portOf({ stdout }: ChildProcess): Promise<number> {
  let written = ""
  for await (const text of stdout!.setEncoding("utf8")) {
    written += text
    const port = /listens on http:\/\/127\.0\.0\.1:(\d+)/.exec(written)?.[1]
    if (port === undefined) continue
    stdout!.resume()
    return Number(port)
  }
  throw new Error(`umbra serve ended: ${written}`)
}
