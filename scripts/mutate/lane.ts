/** Starts a lane process, restarts it after a run that does not end, and waits for its replies. */
import { type ChildProcess, fork } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import type { LaneReply, LaneRequest } from "./lane-process.ts"

const entry = fileURLToPath(new URL("./lane-process.ts", import.meta.url))

export class Lane {
  readonly #root: string
  readonly #mode: "hits" | "mutants"
  #child: ChildProcess | null = null

  constructor(root: string, mode: "hits" | "mutants") {
    this.#root = root
    this.#mode = mode
  }

  /** Null: the run did not end within its time, and was killed. */
  async run(request: LaneRequest, limitMs: number): Promise<LaneReply | null> {
    const child = await this.#ready()
    const timer = setTimeout(() => this.end(), limitMs)
    const reply = await new Promise<LaneReply | null>(resolve => {
      const exited = () => resolve(null)
      child.once("exit", exited)
      child.once("message", (message: LaneReply) => {
        child.off("exit", exited)
        resolve(message)
      })
      child.send(request)
    })
    clearTimeout(timer)
    if (reply === null) this.end()
    return reply
  }

  /** Kills the process and the workers that it started: they are one process group. */
  end(): void {
    const pid = this.#child?.pid
    this.#child = null
    if (pid === undefined) return
    try {
      process.kill(-pid, "SIGKILL")
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error
    }
  }

  async #ready(): Promise<ChildProcess> {
    if (this.#child !== null) return this.#child
    this.#child = fork(entry, [this.#root, this.#mode], {
      cwd: this.#root,
      detached: true,
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    })
    await once(this.#child, "message")
    return this.#child
  }
}
