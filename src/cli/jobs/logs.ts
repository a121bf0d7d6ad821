/** `umbra logs JOB [NODE]`. */
import type { LogLine, LogsOptions } from "../../client/index.ts"
import { jobHasEnded } from "../../core/states.ts"
import type { LogLevel } from "../../log.ts"
import { exitCode } from "../exit.ts"
import { type Paint, paintFor, printable } from "../output/terminal.ts"
import { type Target, type TargetOptions, withTarget } from "../target/open.ts"

export interface LogsCommandOptions extends TargetOptions {
  readonly follow?: boolean
  readonly level?: LogLevel
  readonly item?: number
  readonly attempt?: number
  readonly source?: LogLine["source"]
  /** Milliseconds since 1970. */
  readonly until?: number
  readonly tail?: number
}

const PAGE = 500
const POLL_MS = 300
/** Lines are stored behind the facts: this long after the end of the job no more are expected. */
const LATE_MS = 1000

export async function logs(
  jobId: string,
  node: string | undefined,
  options: LogsCommandOptions,
): Promise<number> {
  const { follow = false, level, item, attempt, tail, json } = options
  const paint = paintFor(process.stdout)
  const show = (line: LogLine) =>
    process.stdout.write(json ? `${JSON.stringify(line)}\n` : `${logLines(line, paint).join("\n")}\n`)
  return withTarget(options, async ({ jobs, logPage }) => {
    const until = options.until === undefined ? undefined : new Date(options.until).toISOString()
    // What the engine did before the last lines is not among them.
    const source = tail === undefined ? options.source : (options.source ?? "handler")
    const query = { node, item, attempt, level, source, until, limit: PAGE }
    let after: string | undefined
    if (tail !== undefined) {
      const last = await readLast(logPage, query, jobId, tail)
      for (const line of last) show(line)
      if (!follow) return exitCode.ok
      after = last.at(-1)?.id
    }
    for (let endsAt: number | null = null; ; ) {
      const isOver = !follow || (endsAt !== null && performance.now() >= endsAt)
      const read = await printAll(logPage, { ...query, after }, jobId, show)
      after = read.after
      if (isOver && !(follow && read.isPending)) return exitCode.ok
      if (endsAt === null && jobHasEnded((await jobs.job(jobId)).status)) endsAt = performance.now() + LATE_MS
      await new Promise(resolve => setTimeout(resolve, POLL_MS))
    }
  })
}

async function readLast(
  logPage: Target["logPage"],
  query: LogsOptions,
  jobId: string,
  tail: number,
): Promise<LogLine[]> {
  const pages: (readonly LogLine[])[] = []
  for (let before: string | null = "end", left = tail; before !== null && left > 0; ) {
    const page = await logPage(jobId, { ...query, before, limit: Math.min(PAGE, left) })
    pages.unshift(page.lines)
    left -= page.lines.length
    before = page.next
  }
  return pages.flat()
}

/** Returns the position after the last line. `isPending`: more lines are certain. */
async function printAll(
  logPage: Target["logPage"],
  query: LogsOptions,
  jobId: string,
  show: (line: LogLine) => void,
): Promise<{ readonly after: string | undefined; readonly isPending: boolean }> {
  let { after } = query
  for (;;) {
    const { lines, next, pending = false } = await logPage(jobId, { ...query, after })
    for (const line of lines) show(line)
    after = next ?? lines.at(-1)?.id ?? after
    if (next === null) return { after, isPending: pending }
  }
}

/**
 * A message with several lines stays whole: the others are indented. The column after the level has a mark in lines of the engine,
 * and nothing else, so that no handler can write such a line.
 */
export function logLines(line: LogLine, paint: Paint): string[] {
  const { at, level, source, node, item, attempt, message, fields, lost } = line
  const place = `${node}${item === undefined ? "" : `[${item}]`}${attempt === undefined ? "" : ` #${attempt}`}`
  const [first = "", ...more] = message.split(/\r?\n/).map(printable)
  const isEngine = source === "engine"
  const shown = (text: string) => (isEngine && text !== "" ? paint.dim(text) : text)
  const head = `${paint.dim(at)} ${coloured(level, paint)} ${isEngine ? "*" : " "} ${printable(place)}  `
  const named = Object.entries(fields ?? {}).map(([name, value]) => fieldLines(name, value))
  const short = named.filter(lines => lines.length === 1).flat()
  const long = named.filter(lines => lines.length > 1).flat()
  return [
    ...(lost === undefined ? [] : [paint.yellow(`… ${lost} lines of ${printable(place)} were lost`)]),
    `${head}${[shown(first), ...short.map(paint.dim)].filter(part => part !== "").join(" ")}`,
    ...[...more, ...long].map(rest => `    ${shown(rest)}`),
  ]
}

function fieldLines(name: string, value: unknown): string[] {
  const text = typeof value === "string" ? value : JSON.stringify(value)
  const [first = "", ...more] = text.split(/\r?\n/)
  return [printable(`${name}=${first}`), ...more.map(printable)]
}

function coloured(level: LogLine["level"], paint: Paint): string {
  const text = level.toUpperCase().padEnd(5)
  if (level === "error") return paint.red(text)
  return level === "warn" ? paint.yellow(text) : paint.dim(text)
}
