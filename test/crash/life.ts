/** One process under test, from its start to its death. */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { programArguments } from "../support/program.ts"

export interface LifeOptions {
  /** What it runs; the crash test's unless told. */
  readonly program?: URL
  readonly task: string
  readonly from: number
  readonly to: number
  readonly step: number
  /** `append.after:17` */
  readonly failpoint?: string
  readonly holdsFirstCall?: boolean
}

export class Life {
  readonly #child: ChildProcess
  readonly #exit: Promise<unknown>
  #output = ""
  #errors = ""
  #wake = () => {}

  constructor(options: LifeOptions) {
    const { task, from, to, step, failpoint, holdsFirstCall = false } = options
    const { program = new URL("./program.js", import.meta.url) } = options
    const words = [...programArguments(fileURLToPath(program)), task, String(from), String(to), String(step)]
    this.#child = spawn(process.execPath, words, {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...process.env,
        UMBRA_FAILPOINT: failpoint ?? "",
        UMBRA_TEST_HOLD: holdsFirstCall ? "1" : "",
      },
    })
    this.#exit = once(this.#child, "exit").then(() => this.#wake())
    this.#child.stdout!.on("data", chunk => {
      this.#output += chunk
      this.#wake()
    })
    this.#child.stderr!.on("data", chunk => {
      this.#errors = (this.#errors + chunk).slice(-4000)
    })
  }

  /** The whole standard output so far. */
  get output(): string {
    return this.#output
  }

  get pid(): number {
    return this.#child.pid!
  }

  get isOver(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  /** Resolves when it has said the word: true; or has died before: false. */
  async says(word: string, timeoutMs: number): Promise<boolean> {
    const deadline = performance.now() + timeoutMs
    while (!this.#output.includes(word) && !this.isOver) {
      const left = deadline - performance.now()
      if (left <= 0)
        throw new Error(`no "${word}" within ${timeoutMs} ms. Its standard error:\n${this.#errors}`)
      await new Promise<void>(resolve => {
        const timer = setTimeout(resolve, left)
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    this.#mustNotHaveFailed()
    return this.#output.includes(word)
  }

  async ended(): Promise<void> {
    await this.#exit
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL")
    await this.#exit
    this.#mustNotHaveFailed()
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  /** Asks it to close in order, and insists that it does. */
  async close(): Promise<void> {
    this.#child.kill("SIGTERM")
    await this.#exit
    if (this.#child.exitCode !== 0) throw new Error(`closing failed:\n${this.#errors}`)
  }

  /** A process that ended by itself, other than at its failpoint, has failed the test. */
  #mustNotHaveFailed(): void {
    const { exitCode } = this.#child
    if (exitCode !== null && exitCode !== 0)
      throw new Error(`the process ended with ${exitCode}:\n${this.#errors}`)
  }
}
