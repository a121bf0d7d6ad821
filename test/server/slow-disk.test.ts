/** A disk that takes long to sync holds up what is to be stored, and nothing else. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { folderWith, startUmbra } from "../cli/umbra.ts"
import { until } from "../engine/stage.ts"
import { ask } from "./stage.ts"

/** Longer than any test: the sync goes on when strace lets go of the process. */
const HELD_US = 600_000_000
/** What a spinning disk takes for a sync. */
const SLOW_US = 40_000

/** Makes every sync of the process begin later by a time. The trace has its syncs and answers, in their order. */
async function delaySyncs(pid: number, trace: string, delayUs: number) {
  const child = spawn(
    "strace",
    [
      ...["-f", "-p", String(pid), "-o", trace, "-s", "20"],
      ...["-e", "trace=fsync,fdatasync,write,writev"],
      ...["-e", `inject=fsync,fdatasync:delay_enter=${delayUs}`],
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  )
  onTestFinished(() => void child.kill("SIGKILL"))
  let output = ""
  child.stderr.on("data", (text: Buffer) => {
    output += text
  })
  await until("strace is attached", () => {
    // Without the right to do so (kernel.yama.ptrace_scope) it says which it needs, and ends.
    if (child.exitCode !== null) throw new Error(output)
    return output.includes("attached")
  })
  return {
    lines: async () => (await readFile(trace, "utf8")).split("\n"),
    release: async () => {
      child.kill("SIGTERM")
      await once(child, "exit")
    },
  }
}

/** How many syncs have ended, and how many answers "200 OK" were written while one was under way. */
function countAnswers(lines: readonly string[]): { syncs: number; during: number } {
  const under = new Set<string>()
  let syncs = 0
  let during = 0
  for (const line of lines) {
    const thread = line.split(" ", 1)[0]!
    if (/^\d+ +f(data)?sync\(/.test(line)) under.add(thread)
    if (/ f(data)?sync(\(| resumed).* = 0( |$)/.test(line)) {
      under.delete(thread)
      syncs++
    }
    if (/ writev?\(.*"HTTP\/1\.1 200 OK/.test(line) && under.size > 0) during++
  }
  return { syncs, during }
}

async function served() {
  const folder = folderWith({})
  onTestFinished(folder.remove)
  const server = startUmbra(["serve", "--port", "0", "--data-dir", join(folder.path, "data")])
  onTestFinished(() => server.kill("SIGKILL"))
  const url = (await server.wrote(/listens on (http:\/\/\S+?)[.,]?\s/))[1]!
  const definition = { name: "one", nodes: [{ id: "a", handler: "transform", config: { value: 1 } }] }
  expect((await ask(url, "/workflows", { method: "POST", body: definition })).status).toBe(201)
  const submit = () => ask(url, "/jobs", { method: "POST", body: { workflow: "one" } })
  const delay = (us: number) => delaySyncs(server.pid, join(folder.path, "trace"), us)
  return { url, submit, delay }
}

it.runIf(process.platform === "linux")(
  "while a sync holds up a submission, /health and /metrics are answered; then the submission is",
  async () => {
    const { url, submit, delay } = await served()
    const syncs = await delay(HELD_US)
    let isAnswered = false
    const submission = submit().finally(() => {
      isAnswered = true
    })
    await until("a sync is held up", async () => (await syncs.lines()).some(line => /sync\(/.test(line)))
    for (let probe = 0; probe < 10; probe++) {
      expect((await ask(url, "/health", {})).status).toBe(200)
      expect((await ask(url, "/metrics", {})).status).toBe(200)
    }
    expect(isAnswered).toBe(false)
    await syncs.release()
    expect((await submission).status).toBe(201)
  },
)

// Whether an answer falls into a sync is a matter of order and not of speed: a thread that syncs writes nothing.
it.runIf(process.platform === "linux")(
  "while every sync takes 40 ms longer and jobs are submitted without a pause, /health is answered during syncs",
  async () => {
    const { url, submit, delay } = await served()
    const syncs = await delay(SLOW_US)
    let isOver = false
    const load = Promise.all(
      Array.from({ length: 4 }, async () => {
        while (!isOver) expect((await submit()).status).toBe(201)
      }),
    )
    try {
      await until("a hundred answers during syncs", async () => {
        for (let probe = 0; probe < 20; probe++) expect((await ask(url, "/health", {})).status).toBe(200)
        const { syncs: ended, during } = countAnswers(await syncs.lines())
        return ended >= 20 && during >= 100
      })
    } finally {
      isOver = true
      await load
    }
  },
)
