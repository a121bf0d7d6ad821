/** A server of its own that writes down how long its event loop was held up (stretches.js), and requests to it. */
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs"
import { Agent, request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { expect, onTestFinished } from "vitest"
import { startUmbra } from "../../cli/umbra.ts"
import { storeFlags, storeOf } from "../served.ts"

const MOST_MS = 50
/**
 * What the probe's calibration takes where 50 ms are promised. It is repeated after every long stretch: on a machine that
 * is slower, or slower at the moment, the stretch may take as much longer.
 */
const USUAL_MS = 4
/**
 * How often an attack is sent while a long stretch is seen. What an attack costs it costs every time; a compilation or
 * another process that takes the caches is seen once.
 */
const MOST_TRIES = 5
/** Between a probe's answer and the next probe. Stretches are measured in the server: probes need not follow each other at once. */
const PROBE_MS = 20

/** A stretch, or a collection of garbage. Times by the server's clock. */
export interface Line {
  readonly pid: number
  readonly from: number
  readonly to?: number
  /** Processor time. */
  readonly used?: number
  readonly calibration?: number
  /** Wall time: other processes may have had the processor meanwhile. */
  readonly collected?: number
}

/**
 * Stretches of our code that are longer than promised. Of the processor time, collections have the share that they have of
 * the wall time: the processor is taken from them as often as from our code.
 */
export function tooLong(lines: readonly Line[]): object[] {
  return lines.flatMap(({ used = 0, calibration = 0, from, to = from }) => {
    const within = lines.filter(
      other => other.collected !== undefined && other.from >= from && other.from < to,
    )
    const collected = within.reduce((sum, other) => sum + other.collected!, 0)
    const own = used * Math.max(0, 1 - collected / Math.max(to - from, used))
    const isLong = own > MOST_MS * Math.max(1, calibration / USUAL_MS)
    return isLong ? [{ used, wall: to - from, collected, own, calibration }] : []
  })
}

export interface Sent {
  readonly method?: string
  readonly path: string
  readonly type?: string
  readonly body?: string | Uint8Array
  readonly headers?: Readonly<Record<string, string>>
}

export interface Answered {
  readonly status: number
  readonly text: string
}

export interface Probed {
  readonly url: string
  /** What is refused before its end was sent may end the connection. */
  send(sent: Sent): Promise<Answered>
  /** Sends JSON, and fails unless it is accepted. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects.
  post(path: string, body: unknown, method?: string): Promise<any>
  /** From now on `/health` is queried again and again; every query must be answered. */
  probe(): void
  /** Fails if `attack` holds up the event loop whenever it is made. */
  mustNotHoldUp(what: string, attack: (tries: number) => Promise<unknown>): Promise<void>
  /** Ends the queries of `/health`. */
  end(): Promise<void>
}

export async function serveProbed(kind: string, ...more: string[]): Promise<Probed> {
  const folder = mkdtempSync(join(tmpdir(), "umbra-stretches-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, "lines")
  const probe = join(import.meta.dirname, "stretches.js")
  const server = startUmbra(["serve", "--port", "0", ...storeFlags(await storeOf(kind)), ...more], {
    env: { NODE_OPTIONS: `--import=${probe}`, UMBRA_TEST_STRETCHES: file },
  })
  onTestFinished(async () => {
    server.kill("SIGKILL")
    await server.ended
  })
  const [, port] = await server.wrote(/listens on http:\/\/\S+:(\d+),/)
  const url = `http://127.0.0.1:${port}`
  const size = () => statSync(file, { throwIfNoEntry: false })?.size ?? 0
  const linesAfter = (bytes: number) =>
    (existsSync(file) ? readFileSync(file) : Buffer.of())
      .toString("utf8", bytes)
      .split("\n")
      .filter(line => line !== "")
      .map(line => JSON.parse(line) as Line)
      .filter(({ pid }) => pid === server.pid)
  const agent = new Agent({ keepAlive: false })
  const send = (sent: Sent) => sendTo(agent, url, sent)
  let probes = 0
  let isOver = false
  let probing: Promise<void> = Promise.resolve()
  /** The stretches of one try that are too long. */
  const stretchesOf = async (attack: () => Promise<unknown>) => {
    const before = size()
    const probesBefore = probes
    await attack()
    // What the attack left to be done is done before the next probe is answered.
    await expect.poll(() => probes, { interval: 20 }).toBeGreaterThan(probesBefore + 1)
    return tooLong(linesAfter(before))
  }
  return {
    url,
    send,
    async post(path, body, method = "POST") {
      const { status, text } = await send({ path, method, body: JSON.stringify(body) })
      expect(status, `${path} ${text.slice(0, 500)}`).toBeLessThan(300)
      return JSON.parse(text)
    },
    probe() {
      probing = (async () => {
        while (!isOver) {
          expect((await send({ method: "GET", path: "/health" })).status).toBe(200)
          probes++
          await delay(PROBE_MS)
        }
      })()
      // A failed attack ends the test, and the server with it: the probe under way is then of no interest.
      probing.catch(() => {})
    },
    async mustNotHoldUp(what, attack) {
      const seen: object[][] = []
      do seen.push(await stretchesOf(() => attack(seen.length)))
      while (seen.at(-1)!.length > 0 && seen.length < MOST_TRIES)
      expect(seen.at(-1), `${what}: ${JSON.stringify(seen)}`).toEqual([])
    },
    async end() {
      isOver = true
      await probing
    },
  }
}

function sendTo(agent: Agent, url: string, sent: Sent): Promise<Answered> {
  const { method = "POST", path, type = "application/json", body, headers } = sent
  return new Promise((resolve, reject) => {
    let status = 0
    const outgoing = request(
      `${url}${path}`,
      { agent, method, headers: { ...(body === undefined ? {} : { "content-type": type }), ...headers } },
      answer => {
        status = answer.statusCode ?? 0
        const chunks: Buffer[] = []
        answer
          .on("data", chunk => chunks.push(chunk))
          .on("end", () => resolve({ status, text: Buffer.concat(chunks).toString() }))
      },
    )
    outgoing.on("error", error => (status === 0 ? reject(error) : resolve({ status, text: "" })))
    outgoing.end(body)
  })
}
