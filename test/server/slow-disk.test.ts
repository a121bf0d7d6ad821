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
const DELAY_US = 600_000_000

/** Holds up every sync of the process until it is released. */
async function holdSyncs(pid: number, trace: string) {
  const child = spawn(
    "strace",
    [
      "-f",
      "-p",
      String(pid),
      "-o",
      trace,
      "-e",
      "trace=fsync,fdatasync",
      "-e",
      `inject=fsync,fdatasync:delay_enter=${DELAY_US}`,
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  )
  onTestFinished(() => void child.kill("SIGKILL"))
  let said = ""
  child.stderr.on("data", (text: Buffer) => {
    said += text
  })
  await until("strace is attached", () => {
    // Without the right to do so (kernel.yama.ptrace_scope) it says which it needs, and ends.
    if (child.exitCode !== null) throw new Error(said)
    return said.includes("attached")
  })
  return {
    isHeld: async () => /sync\(/.test(await readFile(trace, "utf8")),
    release: async () => {
      child.kill("SIGTERM")
      await once(child, "exit")
    },
  }
}

it.runIf(process.platform === "linux")(
  "while a sync holds up a submission, /health and /metrics are answered; then the submission is",
  async () => {
    const folder = folderWith({})
    onTestFinished(folder.remove)
    const server = startUmbra(["serve", "--port", "0", "--data-dir", join(folder.path, "data")])
    onTestFinished(() => server.kill("SIGKILL"))
    const url = (await server.wrote(/listens on (http:\/\/\S+?)[.,]?\s/))[1]!
    const definition = { name: "one", nodes: [{ id: "a", handler: "transform", config: { value: 1 } }] }
    expect((await ask(url, "/workflows", { method: "POST", body: definition })).status).toBe(201)

    const syncs = await holdSyncs(server.pid, join(folder.path, "trace"))
    let isAnswered = false
    const submission = ask(url, "/jobs", { method: "POST", body: { workflow: "one" } }).finally(() => {
      isAnswered = true
    })
    await until("a sync is held up", syncs.isHeld)
    for (let probe = 0; probe < 10; probe++) {
      expect((await ask(url, "/health", {})).status).toBe(200)
      expect((await ask(url, "/metrics", {})).status).toBe(200)
    }
    expect(isAnswered).toBe(false)
    await syncs.release()
    expect((await submission).status).toBe(201)
  },
)
