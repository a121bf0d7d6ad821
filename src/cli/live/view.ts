/** Shows a job while it runs: on a terminal a tree that is redrawn in place, elsewhere plain lines. */
import type { RemoteEvent } from "../../client/index.ts"
import type { JobActivity } from "../../jobs/activity.ts"
import { type Paint, paintFor } from "../output/terminal.ts"
import { Board } from "./board.ts"
import { frame } from "./frame.ts"
import { lineOf } from "./lines.ts"
import { RouteLinesView, type Routes, RoutesTableView } from "./routes-view.ts"
import { Screen } from "./screen.ts"
import { type DrawnGraph, treeOf } from "./tree.ts"

export interface LiveView {
  event(event: RemoteEvent): void
  /** A separate line: for logs of handlers and messages of the command. */
  note(text: string): void
  /** Leaves the last frame on the terminal. */
  end(): void | Promise<void>
}

export type ShownGraph = DrawnGraph & { readonly nodes: readonly { readonly id: string }[] }

export interface ShownJob {
  readonly title: string
  readonly graph: ShownGraph
  activity(): JobActivity
  /** For a pipeline. */
  readonly routes?: Routes | undefined
}

export function liveView(stream: NodeJS.WriteStream, job: ShownJob): LiveView {
  const paint = paintFor(stream)
  const isTerminal = stream.isTTY && process.env.TERM !== "dumb"
  const { routes: look } = job
  if (look !== undefined)
    return new (isTerminal ? RoutesTableView : RouteLinesView)(stream, job, { look, paint })
  return isTerminal ? new TreeView(stream, job, paint) : lineView(stream, job, paint)
}

function lineView(stream: NodeJS.WritableStream, { graph }: ShownJob, paint: Paint): LiveView {
  const board = new Board(graph)
  return {
    event(event) {
      board.apply(event)
      const line = lineOf(event, board, paint)
      if (line !== undefined) stream.write(`${line}\n`)
    },
    note: text => void stream.write(`${text}\n`),
    end() {},
  }
}

const FRAME_MS = 100

class TreeView implements LiveView {
  readonly #stream: NodeJS.WriteStream
  readonly #job: ShownJob
  readonly #paint: Paint
  readonly #board: Board
  readonly #tree: ReturnType<typeof treeOf>
  readonly #screen: Screen
  readonly #timer: NodeJS.Timeout
  #tick = 0
  #isOver = false

  constructor(stream: NodeJS.WriteStream, job: ShownJob, paint: Paint) {
    this.#stream = stream
    this.#job = job
    this.#paint = paint
    this.#board = new Board(job.graph)
    this.#tree = treeOf(job.graph)
    this.#screen = new Screen(stream)
    this.#timer = setInterval(() => this.#draw(), FRAME_MS)
  }

  event(event: RemoteEvent): void {
    this.#board.apply(event)
  }

  note(text: string): void {
    this.#screen.print(text)
  }

  /** Only once: after a second Ctrl-C the last frame has already been shown. */
  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    clearInterval(this.#timer)
    this.#draw()
    this.#screen.close()
  }

  #draw(): void {
    const now = Date.now()
    if (this.#board.endedAt === null) this.#board.observe(this.#job.activity(), now)
    const { columns, rows } = this.#stream
    this.#screen.draw(
      frame({
        title: this.#job.title,
        board: this.#board,
        tree: this.#tree,
        columns: columns || 80,
        rows: rows || 24,
        now,
        tick: this.#tick++,
        paint: this.#paint,
      }),
    )
  }
}
