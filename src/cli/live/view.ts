/**
 * Shows a job while it runs: on a terminal a tree of its nodes, or a table of its routes, that is redrawn in place;
 * elsewhere plain lines, for a pipeline also a line per route that changed.
 */

import { stripVTControlCharacters } from "node:util"
import type { RemoteEvent } from "../../client/index.ts"
import type { RouteView } from "../../core/pipeline/view.ts"
import type { JobActivity } from "../../jobs/activity.ts"
import { routesTable, routeText } from "../output/routes-table.ts"
import { duration, type Paint, paintFor, printable, shorten, width } from "../output/terminal.ts"
import { Board } from "./board.ts"
import { frame } from "./frame.ts"
import { formatEvent } from "./lines.ts"
import { buildTree, type DrawnGraph } from "./tree.ts"

export interface LiveView {
  event(event: RemoteEvent): void
  /** A separate line: for logs of handlers and messages of the command. */
  note(text: string): void
  /** Leaves the last frame on the terminal. */
  end(): Promise<void>
}

export type Routes = () => Promise<readonly RouteView[]>

export type ShownGraph = DrawnGraph & { readonly nodes: readonly { readonly id: string }[] }

export interface ShownJob {
  readonly title: string
  readonly graph: ShownGraph
  activity(): JobActivity
  /** For a pipeline: reads its current routes. */
  readonly routes?: Routes | undefined
}

const FRAME_MS = 100
const TABLE_MS = 500
const LINES_MS = 5000

export function liveView(stream: NodeJS.WriteStream, job: ShownJob): LiveView {
  const paint = paintFor(stream)
  if (!stream.isTTY || process.env.TERM === "dumb") return new LineView(stream, job, paint)
  return new ScreenView(stream, job, paint)
}

/** For a pipeline its routes are read before each `show`; the last one shows the final state of all messages. */
abstract class View implements LiveView {
  protected readonly board: Board
  protected routes: readonly RouteView[] = []
  readonly #look: Routes | undefined
  readonly #timer: NodeJS.Timeout
  #isLooking = false
  #isOver = false

  constructor({ graph, routes }: ShownJob, ms: number) {
    this.board = new Board(graph)
    this.#look = routes
    this.#timer = setInterval(() => void this.#turn(), ms)
  }

  event(event: RemoteEvent): void {
    this.board.apply(event)
  }

  abstract note(text: string): void
  protected abstract show(): void
  protected abstract close(): void

  /** Only once: after a second Ctrl-C the last frame has already been shown. */
  async end(): Promise<void> {
    clearInterval(this.#timer)
    if (this.#look !== undefined) await this.#read(this.#look)
    if (this.#isOver) return
    this.#isOver = true
    this.show()
    this.close()
  }

  async #turn(): Promise<void> {
    // No second request while a slow server has not answered the first.
    if (this.#isLooking) return
    this.#isLooking = true
    if (this.#look !== undefined) await this.#read(this.#look)
    this.#isLooking = false
    if (!this.#isOver) this.show()
  }

  async #read(look: Routes): Promise<void> {
    // A failed query is repeated soon; the event stream reports that the server is unavailable.
    this.routes = await look().catch(() => this.routes)
  }
}

class ScreenView extends View {
  readonly #stream: NodeJS.WriteStream
  readonly #job: ShownJob
  readonly #paint: Paint
  readonly #tree: ReturnType<typeof buildTree>
  readonly #screen: Screen
  #tick = 0

  constructor(stream: NodeJS.WriteStream, job: ShownJob, paint: Paint) {
    super(job, job.routes === undefined ? FRAME_MS : TABLE_MS)
    this.#stream = stream
    this.#job = job
    this.#paint = paint
    this.#tree = buildTree(job.graph)
    this.#screen = new Screen(stream)
  }

  note(text: string): void {
    this.#screen.print(text)
  }

  protected show(): void {
    const { columns, rows } = this.#stream
    const size = { columns: columns || 80, rows: rows || 24 }
    this.#screen.draw(this.#job.routes === undefined ? this.#nodes(size) : this.#table(size))
  }

  protected close(): void {
    this.#screen.close()
  }

  #nodes(size: { readonly columns: number; readonly rows: number }): string[] {
    const { title } = this.#job
    const { board } = this
    const now = Date.now()
    if (board.endedAt === null) board.observe(this.#job.activity(), now)
    return frame({ title, board, tree: this.#tree, ...size, now, tick: this.#tick++, paint: this.#paint })
  }

  #table({ columns, rows }: { readonly columns: number; readonly rows: number }): string[] {
    const table = routesTable(this.routes, this.#paint, columns)
    const room = Math.max(2, rows - 4)
    const shown = table.slice(0, room)
    if (table.length > room) shown.push(this.#paint.dim(`… ${table.length - room} more routes`))
    const title = this.#paint.bold(shorten(printable(this.#job.title), columns))
    return [title, ...shown, this.#paint.dim(shorten(this.#summary(), columns))]
  }

  #summary(): string {
    const { status, startedAt, endedAt, nodes } = this.board
    const took = startedAt === null ? "" : duration((endedAt ?? Date.now()) - startedAt)
    return [status, took, printable(nodes[0]?.note ?? "")].filter(Boolean).join(" · ")
  }
}

class LineView extends View {
  readonly #stream: NodeJS.WritableStream
  readonly #paint: Paint
  readonly #told = new Map<string, string>()

  constructor(stream: NodeJS.WritableStream, job: ShownJob, paint: Paint) {
    super(job, LINES_MS)
    this.#stream = stream
    this.#paint = paint
  }

  override event(event: RemoteEvent): void {
    super.event(event)
    const line = formatEvent(event, this.board, this.#paint)
    if (line !== undefined) this.note(line)
  }

  note(text: string): void {
    this.#stream.write(`${text}\n`)
  }

  protected show(): void {
    const at = this.#paint.dim(new Date().toISOString())
    for (const route of this.routes) {
      const text = routeText(route)
      if (this.#told.get(route.name) === text) continue
      this.#told.set(route.name, text)
      this.note(`${at} ${text}`)
    }
  }

  protected close(): void {}
}

/**
 * The last lines of a terminal, redrawn in place.
 *
 * 1. One write per frame; each line is overwritten and then cleared to its end. No line is ever blank in between, so
 *    the view does not flicker.
 * 2. The cursor is always restored: on `close`, and when the process exits.
 */
interface Terminal {
  readonly columns: number
  readonly rows: number
  write(text: string): unknown
}

const HIDE_CURSOR = "\x1b[?25l"
const SHOW_CURSOR = "\x1b[?25h"
const CLEAR_LINE_END = "\x1b[K"
const CLEAR_BELOW = "\x1b[J"

export class Screen {
  readonly #terminal: Terminal
  #drawn: readonly string[] = []
  #isOpen = false
  readonly #onExit = () => this.close()

  constructor(terminal: Terminal) {
    this.#terminal = terminal
  }

  draw(lines: readonly string[]): void {
    if (!this.#isOpen) this.#open()
    this.#terminal.write(
      `${this.#top()}${lines.map(line => `${line}${CLEAR_LINE_END}\n`).join("")}${CLEAR_BELOW}`,
    )
    this.#drawn = lines
  }

  /** Prints a permanent line above the redrawn ones. */
  print(text: string): void {
    const drawn = this.#drawn.map(line => `${line}${CLEAR_LINE_END}\n`).join("")
    this.#terminal.write(`${this.#top()}${text}${CLEAR_LINE_END}\n${drawn}${CLEAR_BELOW}`)
  }

  close(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    process.off("exit", this.#onExit)
    this.#terminal.write(SHOW_CURSOR)
    this.#drawn = []
  }

  #open(): void {
    this.#isOpen = true
    process.on("exit", this.#onExit)
    this.#terminal.write(HIDE_CURSOR)
  }

  /** Moves to the first redrawn line. A terminal that was made narrower has wrapped long lines. */
  #top(): string {
    const columns = Math.max(1, this.#terminal.columns)
    const rows = this.#drawn.map(line =>
      Math.max(1, Math.ceil(width(stripVTControlCharacters(line)) / columns)),
    )
    const up = rows.reduce((sum, lines) => sum + lines, 0)
    return up === 0 ? "\r" : `\r\x1b[${up}A`
  }
}
