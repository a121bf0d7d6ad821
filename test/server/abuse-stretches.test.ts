/** S3: whatever is sent, no piece of our code holds the event loop for more than 50 ms of processor time. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { Agent, request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { startUmbra } from "../cli/umbra.ts"
import { type Attack, bodies } from "./abuse/bodies.ts"
import { heavy, hostileWorkflows } from "./abuse/heavy.ts"
import { storeFlags, storeOf } from "./served.ts"

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

/** A stretch, or a collection of garbage. Times by the server's clock. */
interface Line {
  readonly pid: number
  readonly from: number
  readonly to?: number
  readonly used?: number
  readonly calibration?: number
  readonly collected?: number
}

/** Stretches of our code that are longer than promised. */
function tooLong(lines: readonly Line[]): object[] {
  return lines.flatMap(({ used = 0, calibration = 0, from, to = 0 }) => {
    const within = lines.filter(
      other => other.collected !== undefined && other.from >= from && other.from < to,
    )
    const collected = within.reduce((sum, other) => sum + other.collected!, 0)
    const isLong = used - collected > MOST_MS * Math.max(1, calibration / USUAL_MS)
    return isLong ? [{ used, collected, calibration }] : []
  })
}

async function serveProbed() {
  const folder = mkdtempSync(join(tmpdir(), "umbra-stretches-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, "lines")
  const probe = join(import.meta.dirname, "abuse/stretches.js")
  const server = startUmbra(["serve", "--port", "0", ...storeFlags(await storeOf("PostgreSQL"))], {
    env: { NODE_OPTIONS: `--import=${probe}`, UMBRA_TEST_STRETCHES: file },
  })
  onTestFinished(async () => {
    server.kill("SIGKILL")
    await server.ended
  })
  const [, port] = await server.wrote(/listens on http:\/\/\S+:(\d+),/)
  const lines = () =>
    (existsSync(file) ? readFileSync(file, "utf8") : "")
      .split("\n")
      .filter(line => line !== "")
      .map(line => JSON.parse(line) as Line)
      .filter(({ pid }) => pid === server.pid)
  return { url: `http://127.0.0.1:${port}`, lines }
}

/** The status; what is refused before its end was sent may end the connection. */
function send(agent: Agent, url: string, { method = "POST", path, type = "application/json", body }: Attack) {
  return new Promise<number>((resolve, reject) => {
    let status = 0
    const sent = request(`${url}${path}`, { agent, method, headers: { "content-type": type } }, answer => {
      status = answer.statusCode ?? 0
      answer.resume().on("end", () => resolve(status))
    })
    sent.on("error", error => (status === 0 ? reject(error) : resolve(status)))
    sent.end(body)
  })
}

it("S3 no attack holds up the event loop, and every probe of /health is answered", async () => {
  const { url, lines } = await serveProbed()
  const agent = new Agent({ keepAlive: false })
  const post = (path: string, body: unknown) =>
    send(agent, url, { what: "", path, body: JSON.stringify(body), status: 0 })
  for (const workflow of [...hostileWorkflows, { name: "own", nodes: [{ id: "a", handler: "input" }] }])
    expect(await post("/workflows", workflow)).toBe(201)
  // What runs for the first time is compiled meanwhile, and a thread is started.
  const document = `name: x\nnodes:\n${Array.from({ length: 80 }, (_, i) => `  - { id: n${i}, handler: input }\n`).join("")}`
  const yaml = {
    what: "",
    path: "/workflows/validate",
    type: "application/yaml",
    body: document,
    status: 200,
  }
  for (let n = 0; n < 10; n++) {
    for (const { name } of hostileWorkflows) await post("/jobs", { workflow: name, input: {} })
    expect(await send(agent, url, yaml)).toBe(200)
    await post("/jobs/bulk", { jobs: Array(100).fill({ workflow: "plain", input: { a: "x" } }) })
  }

  let probes = 0
  let isOver = false
  const probing = (async () => {
    while (!isOver) {
      expect(
        await send(agent, url, { what: "", method: "GET", path: "/health", body: "", status: 200 }),
      ).toBe(200)
      probes++
    }
  })()
  // A failed attack ends the test, and the server with it: the probe under way is then of no interest.
  probing.catch(() => {})
  /** The stretches of one try that are too long. A workflow has a name of its own per try: the same one is not stored again. */
  const stretchesOf = async (attack: Attack, tries: number) => {
    const before = lines().length
    const probesBefore = probes
    const path = attack.path.replace("JOB", "none")
    const body =
      path === "/workflows" && typeof attack.body === "string" && tries > 0
        ? attack.body.replace(/^\{"name": ?"(\w+)"/, `{"name":"$1-${tries}"`)
        : attack.body
    const status = await send(agent, url, { ...attack, path, body }).catch(() => 0)
    // The body of 5 MB is refused while it is being sent.
    if (heavy.includes(attack)) expect([attack.status].flat(), attack.what).toContain(status)
    // What the attack left to be done is done before the next probe is answered.
    await expect.poll(() => probes, { timeout: 60_000 }).toBeGreaterThan(probesBefore + 1)
    return tooLong(lines().slice(before))
  }
  for (const attack of [...heavy, ...bodies]) {
    const seen: object[][] = []
    do seen.push(await stretchesOf(attack, seen.length))
    while (seen.at(-1)!.length > 0 && seen.length < MOST_TRIES)
    expect(seen.at(-1), `${attack.what}: ${JSON.stringify(seen)}`).toEqual([])
  }
  isOver = true
  await probing
}, 900_000)
