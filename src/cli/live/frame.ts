/** One frame of the live view of a job, as lines that fit the terminal. Pure: time and size are arguments. */
import type { NodeStatus } from "../../core/states.ts"
import { duration, type Paint, printable, shorten, width } from "../output/terminal.ts"
import type { Board, BoardNode } from "./board.ts"
import type { TreeRow } from "./tree.ts"

export interface FrameOptions {
  readonly title: string
  readonly board: Board
  readonly tree: readonly TreeRow[]
  readonly columns: number
  /** Number of lines available. */
  readonly rows: number
  readonly now: number
  /** Number of the frame: it turns the spinner. */
  readonly tick: number
  readonly paint: Paint
}

type Style = keyof Paint

const wheel = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

const icons: Record<NodeStatus, readonly [icon: string, style: Style]> = {
  PENDING: ["·", "dim"],
  QUEUED: ["○", "dim"],
  RUNNING: ["●", "cyan"],
  WAITING: ["◔", "yellow"],
  COMPLETED: ["✓", "green"],
  SKIPPED: ["–", "dim"],
  FAILED: ["✗", "red"],
  CANCELLED: ["⊘", "yellow"],
}

/** Title, summary, and the line of the cursor. */
const AROUND = 3
const LONGEST_NAME = 48
const SHORTEST_NAME = 12
/** Columns besides the name: icon, gaps and the time. */
const BESIDE_NAME = 12

export function frame(options: FrameOptions): string[] {
  const { board, tree, columns, paint } = options
  const room = Math.max(1, options.rows - AROUND)
  const isWhole = tree.length <= room
  const shown = isWhole ? tree : mostTelling(tree, board, room - 1)
  const names = shown.map(({ node, branch }) => width(branch + board.nodes[node]!.id))
  const roomForNames = Math.max(SHORTEST_NAME, columns - BESIDE_NAME)
  const nameColumns = Math.min(LONGEST_NAME, roomForNames, Math.max(0, ...names))
  const lines = shown.map(row => nodeLine(row, nameColumns, options))
  if (!isWhole) lines.push(paint.dim(shorten(`… ${leftOut(tree.length - shown.length)}`, columns)))
  const title = shorten(printable(options.title), columns)
  return [paint.bold(title), ...lines, summaryLine(options)]
}

const leftOut = (n: number) => `${n.toLocaleString("en")} more ${n === 1 ? "node" : "nodes"}, counted below`

/** Priority of a line when there is no room for all: failures first, then running nodes, then ended ones, then the rest. */
const importance: Record<NodeStatus, number> = {
  FAILED: 0,
  RUNNING: 1,
  WAITING: 2,
  QUEUED: 3,
  COMPLETED: 4,
  CANCELLED: 5,
  SKIPPED: 6,
  PENDING: 7,
}

function mostTelling(tree: readonly TreeRow[], board: Board, room: number): TreeRow[] {
  const byImportance: TreeRow[][] = Array.from({ length: 8 }, () => [])
  for (const row of tree) {
    const node = board.nodes[row.node]!
    const rank = node.retryAt === null ? importance[node.status] : importance.WAITING
    byImportance[rank]!.push(row)
  }
  const chosen = new Set<TreeRow>()
  for (const [rank, rows] of byImportance.entries()) {
    // Of ended nodes the latest are shown, of all others the first.
    const wanted = rank === importance.COMPLETED ? rows.toReversed() : rows
    for (const row of wanted.slice(0, room - chosen.size)) chosen.add(row)
  }
  return tree.filter(row => chosen.has(row)).map(({ node }) => ({ node, branch: "" }))
}

function nodeLine(row: TreeRow, nameColumns: number, options: FrameOptions): string {
  const { board, columns, paint, tick, now } = options
  const node = board.nodes[row.node]!
  const [icon, style] = icons[node.status]
  const shownIcon =
    node.status === "RUNNING" ? wheel[tick % wheel.length]! : node.retryAt === null ? icon : "↻"
  const name = shorten(printable(node.id), Math.max(4, nameColumns - width(row.branch)))
  const gap = " ".repeat(Math.max(0, nameColumns - width(row.branch + name)))
  const time = formatTime(node, now).padStart(8)
  const used = nameColumns + 2 + 2 + time.length
  const details = shorten(formatDetails(node, now), columns - used - 2)
  const isOver = node.status === "PENDING" || node.status === "SKIPPED" || node.status === "CANCELLED"
  const shownName = isOver ? paint.dim(name) : name
  const head = `${paint.dim(row.branch)}${paint[node.retryAt === null ? style : "yellow"](shownIcon)} ${shownName}`
  if (columns < used) return shorten(`${row.branch}${shownIcon} ${name}`, columns)
  const line = `${head}${gap}  ${paint.dim(time)}`
  // Colours have no width, but spaces before them would break a line that just fits.
  if (details === "") return time.trim() === "" ? head : line
  return `${line}  ${node.status === "FAILED" ? paint.red(details) : paint.dim(details)}`
}

function formatTime(node: BoardNode, now: number): string {
  if (node.since === null || node.status === "PENDING" || node.status === "SKIPPED") return ""
  if (node.until !== null)
    return node.status === "COMPLETED" || node.status === "FAILED"
      ? duration(node.ranMs ?? node.until - node.since)
      : ""
  return node.retryAt === null && node.status !== "QUEUED" ? duration(now - node.since) : ""
}

function formatDetails(node: BoardNode, now: number): string {
  const attempt = node.attempt > 1 ? `attempt ${node.attempt}` : ""
  const retry = node.retryAt === null ? "" : `in ${duration(node.retryAt - now)}`
  const queued = node.status === "QUEUED" && node.retryAt === null ? "ready" : ""
  const skipped = node.status === "SKIPPED" ? "skipped" : node.status === "CANCELLED" ? "cancelled" : ""
  return [attempt, retry, queued, skipped, node.progress, printable(node.note)].filter(Boolean).join("  ")
}

function summaryLine({ board, columns, now, paint }: FrameOptions): string {
  const { counts, nodes, startedAt, endedAt, retrying } = board
  const done = counts.COMPLETED + counts.SKIPPED
  const parts = [
    `${done.toLocaleString("en")} of ${nodes.length.toLocaleString("en")} done`,
    counts.RUNNING > 0 ? `${counts.RUNNING.toLocaleString("en")} running` : "",
    counts.QUEUED > retrying ? `${(counts.QUEUED - retrying).toLocaleString("en")} ready` : "",
    retrying > 0 ? `${retrying.toLocaleString("en")} to be retried` : "",
    counts.WAITING > 0 ? `${counts.WAITING.toLocaleString("en")} waiting` : "",
    counts.FAILED > 0 ? `${counts.FAILED.toLocaleString("en")} failed` : "",
    counts.CANCELLED > 0 ? `${counts.CANCELLED.toLocaleString("en")} cancelled` : "",
    startedAt === null ? "" : duration((endedAt ?? now) - startedAt),
  ]
  return paint.dim(shorten(parts.filter(Boolean).join(" · "), columns))
}
