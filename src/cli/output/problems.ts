/** Formats problems of a definition for people: message, position, the source line, a caret under the problem. */
import { invalidWorkflow, type Problem } from "../../definition/problem.ts"
import { toProblem } from "../../server/http/problem.ts"
import { exitCode } from "../exit.ts"
import { type Paint, paintFor, printable, width } from "./terminal.ts"

export interface Listing {
  /** The name of the document: `flow.yaml`. */
  readonly name: string
  /** Its text; without it no source lines are shown. */
  readonly text?: string | undefined
  /** Number of problems that the server did not list. */
  readonly more?: number | undefined
  readonly paint: Paint
}

/**
 * Prints the problems to standard error, since a program that reads the result from a pipe must not read them; with
 * `--json` as JSON instead of the result. Returns the exit code. `hint`: a last line.
 */
export function reportProblems(
  problems: readonly Problem[],
  { name, text, more }: Omit<Listing, "paint">,
  { json, hint }: { readonly json?: boolean; readonly hint?: string | undefined },
): number {
  const paint = paintFor(process.stderr)
  if (json) process.stdout.write(problemsAsJson(problems, more))
  else process.stderr.write(renderProblems(problems, { name, text, more, paint }))
  if (!json && hint !== undefined) process.stderr.write(paint.dim(hint))
  return exitCode.invalid
}

/** With `--json`: the same as the answer of a server, wherever the workflow was checked. */
export function problemsAsJson(problems: readonly Problem[], more = 0): string {
  return `${JSON.stringify(toProblem(invalidWorkflow(sortProblems(problems), { more })), null, 2)}\n`
}

/** By position in the document; problems without a position come first, since they concern the whole document. */
export function sortProblems(problems: readonly Problem[]): Problem[] {
  return [...problems].sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0))
}

/** The number of problems shown; a generated document may have hundreds of thousands. */
const MOST_SHOWN = 100

export function renderProblems(problems: readonly Problem[], listing: Listing): string {
  const lines = listing.text?.split(/\r?\n/) ?? []
  const sorted = sortProblems(problems)
  const blocks = sorted.slice(0, MOST_SHOWN).map(problem => renderProblem(problem, lines, listing))
  const { more: unlisted = 0 } = listing
  const more = problems.length - blocks.length + unlisted
  const advice = unlisted === 0 ? ": --json lists them all" : ""
  if (more > 0) blocks.push(listing.paint.dim(`… and ${more} more${advice}`))
  const total = problems.length + unlisted
  const count = total === 1 ? "1 problem" : `${total} problems`
  return `${blocks.join("\n\n")}\n\n${listing.paint.red(`✗ ${listing.name}: ${count}`)}\n`
}

function renderProblem(problem: Problem, lines: readonly string[], { name, paint }: Listing): string {
  const { code, line, column } = problem
  const position = line === undefined ? name : `${name}:${line}:${column ?? 1}`
  const path = problem.path === "" ? "" : paint.dim(`  at ${oneLine(problem.path)}`)
  const head = `${paint.bold(oneLine(position))} ${paint.red(`error ${code}`)}${path}`
  const source = line === undefined ? undefined : lines[line - 1]
  const excerpt = source === undefined ? [] : frame(source, line as number, column ?? 1, paint)
  return [head, ...problem.message.split("\n").map(text => `  ${printable(text)}`), ...excerpt].join("\n")
}

/** Characters of the source line shown around the problem: a line of minified JSON may have megabytes. */
const before = 60
const shown = 100

function frame(source: string, line: number, column: number, paint: Paint): string[] {
  const at = Math.min(column - 1, source.length)
  const from = at > before ? at - before : 0
  const head = (from > 0 ? "…" : "") + printable(source.slice(from, at))
  const tail = printable(source.slice(at, from + shown)) + (source.length > from + shown ? "…" : "")
  const gutter = String(line)
  const bar = paint.dim("│")
  const blank = " ".repeat(gutter.length)
  return [
    `  ${paint.dim(gutter)} ${bar} ${head}${tail}`,
    `  ${blank} ${bar} ${" ".repeat(width(head))}${paint.red("^")}`,
  ]
}

const oneLine = (text: string): string => printable(text.replace(/[\r\n]+/g, " "))
