/** Starts a lane process, restarts it after a run that does not end, and waits for its replies. */
import { type ChildProcess, fork } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import type { LaneMode, LaneReply, TestRun } from "./lane-process.ts"

const entry = fileURLToPath(new URL("./lane-process.ts", import.meta.url))

export class Lane {
  readonly #root: string
  readonly #mode: LaneMode
  #child: ChildProcess | null = null

  constructor(root: string, mode: LaneMode) {
    this.#root = root
    this.#mode = mode
  }

  /** The replies of the runs, in their order. Fewer: the next one did not end within its time, and was killed. */
  async run<T extends TestRun & { readonly limitMs: number }>(
    runs: readonly T[],
    env: Readonly<Record<string, string>>,
    ended: (run: T, reply: LaneReply) => void = () => {},
  ): Promise<readonly LaneReply[]> {
    const child = await this.#ready()
    const replies: LaneReply[] = []
    await new Promise<void>(resolve => {
      let timer: NodeJS.Timeout
      const next = () => {
        clearTimeout(timer)
        if (replies.length < runs.length) timer = setTimeout(() => this.end(), runs[replies.length]!.limitMs)
        else over()
      }
      const heard = (reply: LaneReply) => {
        ended(runs[replies.length]!, reply)
        replies.push(reply)
        next()
      }
      const over = () => {
        clearTimeout(timer)
        child.off("message", heard)
        child.off("exit", over)
        resolve()
      }
      child.on("message", heard)
      child.once("exit", over)
      next()
      child.send({ runs, env })
    })
    if (replies.length < runs.length) this.end()
    return replies
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
