/**
 * A place in the fleet, and the processes that fill it one after the other, as a supervisor would have it: one that
 * could not start, because what it needs is away, is started again. One that ends by itself later is a problem.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { closeSync, openSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import type { Proxy as Way } from "../engine/proxy.ts"

export type Kind = "engine" | "worker" | "api"
export type Service = "redis" | "postgres"

export interface MemberParts {
  readonly name: string
  readonly kind: Kind
  /** Words after `umbra`. */
  readonly words: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** For what it writes. */
  readonly folder: string
  /** Its ways to what it needs. */
  readonly ways: ReadonlyMap<Service, Way>
  /** Where it serves, if it does. */
  readonly url: string | null
}

const PROGRAM = resolve(import.meta.dirname, "../../dist/cli/main.js")
const AGAIN_MS = 200
const STARTED = /listens on|takes tasks/

export class Member {
  readonly parts: MemberParts
  /** Something is being done to its process. */
  isBusy = false
  /** Ends that nobody asked for. */
  readonly problems: string[] = []
  #child: ChildProcess | null = null
  #isWanted = false

  constructor(parts: MemberParts) {
    this.parts = parts
  }

  get name(): string {
    return this.parts.name
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  /** Resolves when it is up. */
  async start(): Promise<void> {
    this.#isWanted = true
    while (this.#isWanted && !(await this.#begin())) await delay(AGAIN_MS)
  }

  async #begin(): Promise<boolean> {
    const log = openSync(join(this.parts.folder, `${this.name}.log`), "a")
    const child = spawn(process.execPath, [PROGRAM, ...this.parts.words], {
      stdio: ["ignore", "pipe", log],
      env: { ...process.env, ...this.parts.env },
    })
    closeSync(log)
    this.#child = child
    let output = ""
    const isUp = await new Promise<boolean>(resolve => {
      child.once("exit", () => resolve(false))
      child.stdout!.on("data", chunk => {
        output += chunk
        if (STARTED.test(output)) resolve(true)
      })
    })
    if (isUp) child.once("exit", (code, signal) => this.#ended(child, `${code ?? signal}`))
    return isUp
  }

  #ended(child: ChildProcess, how: string): void {
    if (child !== this.#child) return
    this.#child = null
    if (this.#isWanted) this.problems.push(`${this.name} ended by itself (${how})`)
  }

  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name)
  }

  async kill(): Promise<void> {
    await this.#end("SIGKILL")
  }

  /** In order. Answers whether it said that all was well. */
  async stop(): Promise<boolean> {
    return (await this.#end("SIGTERM")) === 0
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    this.#isWanted = false
    const child = this.#child
    this.#child = null
    if (child === null || child.exitCode !== null || child.signalCode !== null) return 0
    const exited = once(child, "exit")
    child.kill(signal)
    const [code] = (await exited) as [number | null]
    return code
  }

  async lastWords(): Promise<string> {
    const log = await readFile(join(this.parts.folder, `${this.name}.log`), "utf8").catch(() => "")
    return log.trim().split("\n").slice(-15).join("\n")
  }
}
