/** Journals as releases recorded them. A file, once there, is never written again. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fold } from "../../src/core/apply/apply.ts"
import type { Fact } from "../../src/core/facts.ts"
import { graphOf, type NodeSpec } from "./graphs.ts"
import { scenarios } from "./scenarios.ts"
import { type JobSummary, summaryOf } from "./summary.ts"

export interface RecordedJournal {
  readonly release: string
  readonly graph: readonly NodeSpec[]
  readonly facts: readonly Fact[]
  /** The time `summary` speaks of. */
  readonly now: number
  readonly summary: JobSummary
}

/** Answers with the names of the files that are new. */
export function recordJournals(folder: string, release: string): string[] {
  const into = join(folder, release)
  mkdirSync(into, { recursive: true })
  const there = new Set(readdirSync(into))
  const missing = Object.entries(scenarios).filter(([name]) => !there.has(`${name}.json`))
  return missing.map(([name, play]) => {
    const { specs, facts, now } = play()
    const summary = summaryOf(fold(graphOf(specs), facts), now)
    const journal: RecordedJournal = { release, graph: specs, facts, now, summary }
    writeFileSync(join(into, `${name}.json`), `${JSON.stringify(journal, null, 2)}\n`, { flag: "wx" })
    return `${release}/${name}.json`
  })
}

export function readJournals(folder: string): { name: string; journal: RecordedJournal }[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter(name => name.endsWith(".json"))
    .sort()
    .map(name => ({ name, journal: JSON.parse(readFileSync(join(folder, name), "utf8")) as RecordedJournal }))
}
