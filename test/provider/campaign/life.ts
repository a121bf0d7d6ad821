/** One process of the campaign, from its start to its death. */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"

const program = fileURLToPath(new URL("./program.js", import.meta.url))

export class ProviderLife {
  readonly #child: ChildProcess
  readonly #exit: Promise<unknown>
  #said = ""
  #complaints = ""
  #wake = () => {}

  constructor(options: {
    readonly task: string
    readonly from: number
    readonly to: number
    readonly step: number
    /** `handler.after:1` */
    readonly failpoint?: string
  }) {
    const { task, from, to, step, failpoint = "" } = options
    this.#child = spawn(process.execPath, [program, task, String(from), String(to), String(step)], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, UMBRA_FAILPOINT: failpoint },
    })
    this.#exit = once(this.#child, "exit").then(() => this.#wake())
    this.#child.stdout!.on("data", chunk => {
      this.#said += chunk
      this.#wake()
    })
    this.#child.stderr!.on("data", chunk => {
      this.#complaints = (this.#complaints + chunk).slice(-4000)
    })
  }

  get isOver(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  /** Where it takes webhooks. */
  async door(timeoutMs: number): Promise<string> {
    await this.says("door", timeoutMs)
    return /door (\S+)/.exec(this.#said)?.[1] ?? ""
  }

  /** Resolves when it has said the word, or is over. */
  async says(word: string, timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs
    while (!this.#said.includes(word) && !this.isOver) {
      const left = deadline - performance.now()
      if (left <= 0)
        throw new Error(`no "${word}" within ${timeoutMs} ms. It complained:\n${this.#complaints}`)
      await new Promise<void>(resolve => {
        const timer = setTimeout(resolve, left)
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    this.#mustNotHaveFailed()
  }

  async ended(): Promise<void> {
    await this.#exit
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL")
    await this.#exit
    this.#mustNotHaveFailed()
  }

  async close(): Promise<void> {
    this.#child.kill("SIGTERM")
    await this.#exit
    if (this.#child.exitCode !== 0) throw new Error(`closing failed:\n${this.#complaints}`)
  }

  #mustNotHaveFailed(): void {
    const { exitCode } = this.#child
    if (exitCode !== null && exitCode !== 0)
      throw new Error(`the process ended with ${exitCode}:\n${this.#complaints}`)
  }
}
