/**
 * `umbra complete -- WORDS…`, which the shell scripts call at each TAB: one line per candidate, a tab, its description.
 * It must be fast and silent: candidates that cannot be found at once are left out, and errors are ignored.
 */
import type { Command } from "commander"
import { isPostgres } from "../../journal/location.ts"
import { exitCode } from "../exit.ts"
import { storeLocation } from "../input/store.ts"
import { printable } from "../output/terminal.ts"
import { openTarget, serverFor } from "../target/open.ts"
import type { Target, TargetOptions } from "../target/target.ts"
import { atCursor, type Candidate, type Known } from "./candidates.ts"

const LONGEST_MS = 1500
const MOST = 50

export async function complete(program: Command, given: readonly string[]): Promise<number> {
  const words = rejoined(given)
  const { candidates, known, options } = atCursor(program, words)
  const found = known === null ? [] : await inTime(ask(known, options))
  const current = words.at(-1) ?? ""
  for (const { text, about } of [...candidates, ...found.filter(({ text }) => text.startsWith(current))])
    process.stdout.write(`${text}\t${printable(about)}\n`)
  return exitCode.ok
}

/** Bash splits words at `:` and `=`; this joins an address again. */
function rejoined(words: readonly string[]): string[] {
  const joined: string[] = []
  let glue = false
  for (const word of words) {
    const isMark = word === ":" || word === "="
    if ((isMark || glue) && joined.length > 0) joined[joined.length - 1] += word
    else joined.push(word)
    glue = isMark
  }
  return joined
}

async function inTime(asked: Promise<Candidate[]>): Promise<Candidate[]> {
  const late = new Promise<Candidate[]>(resolve => setTimeout(resolve, LONGEST_MS, []).unref())
  return Promise.race([asked, late]).catch(() => [])
}

async function ask(known: Known, options: TargetOptions): Promise<Candidate[]> {
  // Opening a folder takes a second and locks out other processes.
  const target =
    (await serverFor(options)) ?? (isPostgres(storeLocation(options)) ? await openTarget(options) : null)
  if (target === null) return []
  try {
    return known === "job" ? await jobs(target) : await workflows(target)
  } finally {
    await target.close()
  }
}

async function jobs(target: Target): Promise<Candidate[]> {
  const { jobs: found } = await target.jobs.jobPage({ limit: MOST })
  return found.map(({ job_id, status, workflow }) => ({ text: job_id, about: `${status} ${workflow}` }))
}

async function workflows(target: Target): Promise<Candidate[]> {
  const found: Candidate[] = []
  for await (const { name, version } of target.workflows.list()) {
    // The shell would split a name with spaces.
    if (/^[\w./@-]+$/.test(name)) found.push({ text: name, about: `version ${version}` })
    if (found.length === MOST) break
  }
  return found
}
