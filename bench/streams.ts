/**
 * Live streams of `umbra serve`: the delay of an event, and the cost of an open stream.
 *
 * An event's time is when its fact was decided, before the append that makes it durable: the measurement
 * includes decision, commit, reading, and delivery to a socket of this process. Everything shares the
 * machine's cores.
 */
import type { ChildProcess } from "node:child_process"
import { readFileSync } from "node:fs"
import { connect, type Socket } from "node:net"
import { Connection, requestText } from "./connection.ts"

const STREAMS = 1000
const MANY = 5000
/**
 * Jobs that run during the whole benchmark, each a chain of waits; every stream of one job follows one of
 * them.
 */
const LONG_JOBS = 500
const SECONDS = 10
/** One-node jobs submitted per second: each is five events on every stream of all jobs. */
const JOBS_PER_SECOND = 10

const short = { name: "short", nodes: [{ id: "n", handler: "transform", config: { value: 1 } }] }
const long = {
  name: "long",
  nodes: Array.from({ length: 40 }, (_, n) => ({
    id: `wait${n}`,
    handler: "sleep",
    config: { seconds: 5 },
    dependencies: n === 0 ? [] : [`wait${n - 1}`],
  })),
}

export async function measureStreams({ child, port }: { child: ChildProcess; port: number }): Promise<void> {
  const control = await Connection.open(port)
  for (const workflow of [short, long]) await control.send(requestText("POST", "/workflows", workflow))
  console.log(`  memory without a stream${" ".repeat(9)} ${rss(child)} MB`)
  const jobs = await submitLong(port)
  const streams: StreamSocket[] = []
  const openMore = async (count: number) => {
    for (let n = streams.length; n < count; n++) {
      const path = n % 2 === 0 ? "/jobs/stream" : `/jobs/${jobs[(n >> 1) % jobs.length]}/stream`
      streams.push(new StreamSocket(port, path))
      if (n % 100 === 99) await streams.at(-1)!.begun
    }
    await Promise.all(streams.map(stream => stream.begun))
  }
  await openMore(STREAMS)
  await deliver(control, streams)
  await openMore(MANY)
  console.log(
    `  memory with ${MANY} streams${" ".repeat(11)} ${rss(child)} MB (${MANY / 2} of all jobs, ${MANY / 2} of one)`,
  )
  await deliver(control, streams)
  console.log(`  memory after that${" ".repeat(15)} ${rss(child)} MB`)
  for (const stream of streams) stream.close()
  control.close()
}

async function deliver(control: Connection, streams: readonly StreamSocket[]): Promise<void> {
  for (const stream of streams) stream.latencies = []
  const begin = performance.now()
  const submission = requestText("POST", "/jobs", { workflow: "short" })
  for (let n = 0; n < SECONDS * JOBS_PER_SECOND; n++) {
    await control.send(submission)
    const next = begin + (1000 * (n + 1)) / JOBS_PER_SECOND
    await new Promise(resolve => setTimeout(resolve, next - performance.now()))
  }
  await new Promise(resolve => setTimeout(resolve, 500))
  const seconds = (performance.now() - begin) / 1000
  const all = streams.flatMap(({ latencies }) => latencies ?? []).sort((a, b) => a - b)
  const share = (part: number) => all[Math.floor(all.length * part)]
  const rate = Math.round(all.length / seconds).toLocaleString("en")
  console.log(
    `  ${streams.length} streams, ${rate} events/s delivered`.padEnd(45) +
      `p50 ${share(0.5)} ms  p99 ${share(0.99)} ms  longest ${all.at(-1)} ms`,
  )
}

/** One after the other: jobs of users do not all wake at the same moment. */
async function submitLong(port: number): Promise<string[]> {
  const ids: string[] = []
  for (let n = 0; n < LONG_JOBS; n++) {
    const answer = await fetch(`http://127.0.0.1:${port}/jobs`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ workflow: "long" }),
    })
    ids.push(((await answer.json()) as { job_id: string }).job_id)
    await new Promise(resolve => setTimeout(resolve, 10))
  }
  return ids
}

/** Resident memory, as the kernel counts it. */
function rss(child: ChildProcess): number {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8")
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024)
}

/** Reads as little as possible: the time of every event, and when it arrived. */
class StreamSocket {
  readonly begun: Promise<void>
  latencies: number[] | null = null
  readonly #socket: Socket

  constructor(port: number, path: string) {
    this.#socket = connect(port, "127.0.0.1")
    this.#socket.setEncoding("latin1").write(requestText("GET", path))
    this.begun = new Promise((resolve, reject) => {
      this.#socket.on("error", reject)
      this.#socket.on("data", (text: string) => {
        if (text.includes("event: snapshot")) resolve()
        else this.#measure(text)
      })
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  #measure(text: string): void {
    if (this.latencies === null) return
    const now = Date.now()
    for (const [, at] of text.matchAll(/"(?:updated_)?at":"([^"]{24})"/g))
      this.latencies.push(now - Date.parse(at!))
  }
}
