import { exitCode } from "../exit.ts"
import { paintFor, printable, width } from "./terminal.ts"

/** A text, or its lines. */
type Text = string | readonly string[]

/** Prints the result of a command that has succeeded: as JSON with `--json`, otherwise as text. Returns its exit code. */
export function print(
  { json }: { readonly json?: boolean },
  value: unknown,
  text: Text | (() => Text),
): number {
  process.stdout.write(json ? asJson(value) : wholeText(typeof text === "function" ? text() : text))
  return exitCode.ok
}

function wholeText(text: Text): string {
  return typeof text === "string" ? text : `${text.join("\n")}\n`
}

export const asJson = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

/** `owner     local`; facts without a value are left out. */
export function factLines(
  facts: readonly (readonly [name: string, value: string])[],
  paint = paintFor(process.stdout),
): string[] {
  return facts
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${paint.dim(name.padEnd(9))} ${printable(value)}`)
}

/** Rows as lines, with columns of equal width. */
export function tableLines(rows: readonly (readonly string[])[]): string[] {
  const columns = Math.max(0, ...rows.map(row => row.length))
  const filled = Array.from({ length: columns }, (_, at) => padded(rows.map(row => row[at] ?? "")))
  return rows.map((_, row) =>
    filled
      .map(column => column[row]!)
      .join("  ")
      .trimEnd(),
  )
}

/** Texts of a column, filled with spaces to the width of the longest. */
export function padded(texts: readonly string[]): string[] {
  const columns = Math.max(...texts.map(width))
  return texts.map(text => `${text}${" ".repeat(columns - width(text))}`)
}

/** For a job that was submitted. Standard output has only its id, for scripts. */
export function printSubmitted(
  options: { readonly json?: boolean },
  { job, what }: { readonly job: { readonly job_id: string }; readonly what: string },
  { isRun, flags }: { readonly isRun: boolean; readonly flags: string },
): number {
  const code = print(options, job, `${job.job_id}\n`)
  const next = isRun
    ? `Follow the job: umbra watch ${job.job_id}${flags}`
    : `If no engine runs on this store, start one: umbra serve${flags}, or umbra resume${flags}`
  if (!options.json) process.stderr.write(`${what} ${next}\n`)
  return code
}

/** `order@3`; a changed definition has no version. */
export function formatWorkflow({
  workflow,
  workflow_version: version,
}: {
  readonly workflow: string
  readonly workflow_version: number | null
}): string {
  return version === null ? `${workflow} (changed)` : `${workflow}@${version}`
}
