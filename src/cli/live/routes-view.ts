/** Shows an execution while it runs: on a terminal a table of its routes, elsewhere a line per route that changed. */

import type { RemoteEvent } from "../../client/index.ts"
import type { RouteView } from "../../core/pipeline/view.ts"
import { routesTable, routeText } from "../output/routes-table.ts"
import { duration, type Paint, printable, shorten } from "../output/terminal.ts"
import { Board } from "./board.ts"
import { lineOf } from "./lines.ts"
import { Screen } from "./screen.ts"
import type { LiveView, ShownJob } from "./view.ts"

export type Routes = () => Promise<readonly RouteView[]>

const TABLE_MS = 500
const LINES_MS = 5000

abstract class RoutesView implements LiveView {
  protected readonly board: Board
  protected routes: readonly RouteView[] = []
  readonly #look: Routes
  readonly #timer: NodeJS.Timeout
  #isLooking = false

  constructor(job: ShownJob, look: Routes, ms: number) {
    this.board = new Board(job.graph)
    this.#look = look
    this.#timer = setInterval(() => void this.#turn(), ms)
  }

  abstract event(event: RemoteEvent): void
  abstract note(text: string): void
  protected abstract show(): void

  /** The last frame shows the final state of all messages. */
  async end(): Promise<void> {
    clearInterval(this.#timer)
    await this.#read()
    this.show()
  }

  async #turn(): Promise<void> {
    // No second request while a slow server has not answered the first.
    if (this.#isLooking) return
    this.#isLooking = true
    await this.#read()
    this.#isLooking = false
    this.show()
  }

  async #read(): Promise<void> {
    // A failed query is repeated soon; the event stream reports that the server is unavailable.
    this.routes = await this.#look().catch(() => this.routes)
  }
}

export class RoutesTableView extends RoutesView {
  readonly #stream: NodeJS.WriteStream
  readonly #paint: Paint
  readonly #screen: Screen
  readonly #title: string
  #isOver = false

  constructor(stream: NodeJS.WriteStream, job: ShownJob, { look, paint }: { look: Routes; paint: Paint }) {
    super(job, look, TABLE_MS)
    this.#stream = stream
    this.#paint = paint
    this.#title = job.title
    this.#screen = new Screen(stream)
  }

  event(event: RemoteEvent): void {
    this.board.apply(event)
  }

  note(text: string): void {
    this.#screen.print(text)
  }

  override async end(): Promise<void> {
    await super.end()
    this.#isOver = true
    this.#screen.close()
  }

  protected show(): void {
    if (this.#isOver) return
    const { columns = 80, rows = 24 } = this.#stream
    const table = routesTable(this.routes, this.#paint, columns)
    const room = Math.max(2, rows - 4)
    const shown = table.slice(0, room)
    if (table.length > room) shown.push(this.#paint.dim(`… ${table.length - room} more routes`))
    const title = this.#paint.bold(shorten(printable(this.#title), columns))
    this.#screen.draw([title, ...shown, this.#paint.dim(shorten(this.#summary(), columns))])
  }

  #summary(): string {
    const { status, startedAt, endedAt, nodes } = this.board
    const took = startedAt === null ? "" : duration((endedAt ?? Date.now()) - startedAt)
    return [status, took, printable(nodes[0]?.note ?? "")].filter(Boolean).join(" · ")
  }
}

export class RouteLinesView extends RoutesView {
  readonly #stream: NodeJS.WritableStream
  readonly #paint: Paint
  readonly #told = new Map<string, string>()

  constructor(stream: NodeJS.WritableStream, job: ShownJob, { look, paint }: { look: Routes; paint: Paint }) {
    super(job, look, LINES_MS)
    this.#stream = stream
    this.#paint = paint
  }

  event(event: RemoteEvent): void {
    this.board.apply(event)
    const line = lineOf(event, this.board, this.#paint)
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
}
