/** A Redis of the test's own, which it may kill, flush and set back to an earlier state. */
import { type ChildProcess, spawn } from "node:child_process"
import { copyFile, mkdtemp, rm } from "node:fs/promises"
import { createConnection } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { onTestFinished } from "vitest"
import { freePort } from "../../scripts/services/port.ts"

export class PrivateRedis {
  readonly url: string
  readonly #port: number
  readonly #folder: string
  #process: ChildProcess | null = null

  private constructor(port: number, folder: string) {
    this.#port = port
    this.#folder = folder
    this.url = `redis://127.0.0.1:${port}`
  }

  static async start(): Promise<PrivateRedis> {
    const redis = new PrivateRedis(await freePort(), await mkdtemp(join(tmpdir(), "umbra-redis-")))
    await redis.begin()
    onTestFinished(async () => {
      await redis.kill()
      await rm(redis.#folder, { recursive: true, force: true })
    })
    return redis
  }

  async begin(): Promise<void> {
    const args = ["--port", String(this.#port), "--bind", "127.0.0.1", "--save", "", "--dir", this.#folder]
    this.#process = spawn("redis-server", args, { stdio: "ignore" })
    while (!(await this.#says("PING").catch(() => "")).startsWith("+PONG")) await delay(20)
  }

  async kill(): Promise<void> {
    const running = this.#process
    this.#process = null
    if (running === null || running.exitCode !== null) return
    const gone = new Promise(resolve => running.once("exit", resolve))
    running.kill("SIGKILL")
    await gone
  }

  async flush(): Promise<void> {
    await this.#says("FLUSHALL")
  }

  /** To `restore` later. */
  async snapshot(): Promise<void> {
    await this.#says("SAVE")
    await copyFile(join(this.#folder, "dump.rdb"), join(this.#folder, "kept.rdb"))
  }

  /** Comes back with what it had at the snapshot. */
  async restore(): Promise<void> {
    await this.kill()
    await copyFile(join(this.#folder, "kept.rdb"), join(this.#folder, "dump.rdb"))
    await this.begin()
  }

  async forgetSnapshot(): Promise<void> {
    await rm(join(this.#folder, "dump.rdb"), { force: true })
  }

  #says(command: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const socket = createConnection(this.#port, "127.0.0.1")
      socket.setEncoding("utf8").on("error", reject)
      socket.once("data", answer => {
        socket.destroy()
        resolve(String(answer))
      })
      socket.write(`${command}\r\n`)
    })
  }
}
