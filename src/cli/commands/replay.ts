/** `umbra replay JOB`: plays the life of a job in the tree of its nodes; without a terminal it prints the steps. */
import { emitKeypressEvents } from "node:readline"
import { pages } from "../../client/http.ts"
import type { FactRecord } from "../../client/index.ts"
import { exitCode } from "../exit.ts"
import { Replay } from "../live/replay.ts"
import { Screen } from "../live/view.ts"
import { formatWorkflow } from "../output/print.ts"
import { paintFor } from "../output/terminal.ts"
import { type Target, type TargetOptions, withTarget } from "../target/open.ts"

export interface ReplayOptions extends TargetOptions {
  /** How many times faster than the job ran. */
  readonly speed: number
  /** Only keys move it. */
  readonly step?: boolean
}

const PAGE = 1000

export async function replay(jobId: string, options: ReplayOptions): Promise<number> {
  const played = await withTarget(options, target => read(target, jobId))
  const { stdout } = process
  if (stdout.isTTY && process.env.TERM !== "dumb") await new Player(played, options).played
  else print(played)
  return exitCode.ok
}

async function read(target: Target, jobId: string): Promise<Replay> {
  const job = await target.jobs.job(jobId)
  const graph = await target.compiledGraph(job)
  const facts: FactRecord[] = []
  const ask = (after?: string) => target.jobs.factPage(jobId, { after, limit: PAGE })
  for await (const page of pages<string, Awaited<ReturnType<typeof ask>>>(ask)) facts.push(...page.facts)
  const title = `${formatWorkflow(job)}  ${jobId}`
  return new Replay({ jobId, title, graph, facts })
}

function print(replay: Replay): void {
  const paint = paintFor(process.stdout)
  for (;;) {
    process.stdout.write(`${replay.text(paint).join("\n")}\n`)
    if (replay.isAtEnd) return
    replay.go(replay.position + 1)
  }
}

interface Key {
  readonly name?: string
  readonly sequence?: string
  readonly ctrl?: boolean
}

const HINT = "←/→ fact  [/] failure  space play  q quit"

/** Resolves when it was played to its end, or the person has left it. */
class Player {
  readonly played: Promise<void>
  readonly #replay: Replay
  readonly #screen = new Screen(process.stdout)
  readonly #speed: number
  readonly #hasKeys = process.stdin.isTTY === true
  readonly #onKey = (_: unknown, key: Key) => this.#press(key)
  readonly #onResize = () => this.#draw()
  #end: () => void = () => {}
  #timer: NodeJS.Timeout | null = null
  /** A person uses the keys: it stays until the person leaves it. */
  #isHeld: boolean

  constructor(replay: Replay, { speed, step = false }: ReplayOptions) {
    this.#replay = replay
    this.#speed = speed
    this.#isHeld = step && this.#hasKeys
    this.played = new Promise(resolve => {
      this.#end = resolve
    })
    this.#begin()
  }

  #begin(): void {
    process.stdout.on("resize", this.#onResize)
    process.once("SIGTERM", this.#leave)
    if (this.#hasKeys) {
      emitKeypressEvents(process.stdin)
      process.stdin.setRawMode(true).resume().on("keypress", this.#onKey)
    }
    this.#draw()
    if (!this.#isHeld) this.#play()
  }

  readonly #leave = (): void => {
    this.#pause()
    process.stdout.off("resize", this.#onResize)
    process.off("SIGTERM", this.#leave)
    if (this.#hasKeys) process.stdin.off("keypress", this.#onKey).setRawMode(false).pause()
    this.#screen.close()
    this.#end()
  }

  #play(): void {
    if (this.#replay.isAtEnd) {
      if (!this.#isHeld) this.#leave()
      return
    }
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#replay.go(this.#replay.position + 1)
      this.#draw()
      this.#play()
    }, this.#replay.delayMs(this.#speed))
  }

  #pause(): void {
    clearTimeout(this.#timer ?? undefined)
    this.#timer = null
  }

  #press({ name, sequence, ctrl = false }: Key): void {
    if (name === "q" || (ctrl && (name === "c" || name === "d"))) {
      this.#leave()
      return
    }
    const isPlaying = this.#timer !== null
    this.#pause()
    this.#isHeld = true
    const { position } = this.#replay
    if (name === "left") this.#replay.go(position - 1)
    else if (name === "right") this.#replay.go(position + 1)
    else if (sequence === "[") this.#replay.goToFailure(-1)
    else if (sequence === "]") this.#replay.goToFailure(1)
    else if (name === "space" ? !isPlaying : isPlaying) this.#play()
    this.#draw()
  }

  #draw(): void {
    const { columns, rows } = process.stdout
    const size = { columns: columns || 80, rows: rows || 24 }
    this.#screen.draw(this.#replay.lines(size, paintFor(process.stdout), this.#hasKeys ? HINT : ""))
  }
}
