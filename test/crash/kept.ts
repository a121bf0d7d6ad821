/**
 * What must hold of log lines and artifacts after any number of deaths. The oracle is what the handlers wrote to files of their own
 * (`keptIn` in handlers.js): each line before it was logged, each hash after its content was stored.
 *
 * 1. Every reference in a fact was returned to a handler of its job, is held, and has its content.
 * 2. Sweeps remove what nothing refers to, and nothing else.
 * 3. Each line that is stored is there once for each process that logged it, with the number that it was logged with, in the order of its
 *    run, which is of one process; missing lines are shown as a gap, or were the last.
 */
import { createHash } from "node:crypto"
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { Artifacts } from "../../src/artifacts/artifacts.ts"
import { openFolderStore } from "../../src/artifacts/folder-store.ts"
import { artifactSettings } from "../../src/artifacts/settings.ts"
import { artifactsInText } from "../../src/core/artifacts.ts"
import { localOwner } from "../../src/core/facts.ts"
import type { JobPage, Journal } from "../../src/journal/port/journal.ts"
import type { StoredLine } from "../../src/log.ts"

export interface KeptVerdict {
  /** References in facts. */
  readonly references: number
  /** Content that sweeps removed in the end, because nothing referred to it. */
  readonly swept: number
  readonly lines: number
  readonly lostLines: number
  /** How long before the last sign of life of its process the oldest lost line was logged. */
  readonly lostMs: number
  readonly violations: readonly string[]
}

export interface KeptParts {
  readonly journal: Journal
  /** Where the handlers wrote. */
  readonly folder: string
  /** Where the content is. */
  readonly content: string
  /** A line may only be lost if its process was seen for at most this long afterwards. */
  readonly mostLostMs: number
}

export async function checkKept(parts: KeptParts): Promise<KeptVerdict> {
  const oracle = await readKept(parts.folder)
  const violations: string[] = []
  const all = new Set<string>()
  const stored = new Set<string>()
  for (const jobId of await allJobs(parts.journal)) {
    const references = await referencesOf(parts.journal, jobId)
    violations.push(...(await heldProblems(parts.journal, jobId, references)))
    for (const hash of references) {
      all.add(hash)
      if (!oracle.puts.get(jobId)?.has(hash))
        violations.push(`job ${jobId} refers to ${hash}, which was never returned to a handler of it`)
    }
    violations.push(...(await lineProblems(parts.journal, jobId, { oracle, stored })))
  }
  const swept = await sweep(parts, all, violations)
  let [lostLines, lostMs] = [0, 0]
  for (const [line, { at, process }] of oracle.lines) {
    if (stored.has(line)) continue
    lostLines++
    lostMs = Math.max(lostMs, oracle.lastSigns.get(process)! - at)
  }
  if (lostMs > parts.mostLostMs)
    violations.push(`a line was lost whose process lived for at least ${lostMs} ms afterwards`)
  return { references: all.size, swept, lines: oracle.lines.size, lostLines, lostMs, violations }
}

interface Oracle {
  /** By job: hashes. */
  readonly puts: Map<string, Set<string>>
  /** By "JOB NODE ATTEMPT NUMBER FILE". */
  readonly lines: Map<string, { readonly at: number; readonly process: string }>
  readonly lastSigns: Map<string, number>
}

async function readKept(folder: string): Promise<Oracle> {
  const oracle: Oracle = { puts: new Map(), lines: new Map(), lastSigns: new Map() }
  for (const file of await readdir(folder))
    for (const written of (await readFile(join(folder, file), "utf8")).split("\n")) {
      const [what, job, node, attempt, word, at] = written.split(" ")
      if (at === undefined) continue
      oracle.lastSigns.set(file, Number(at))
      if (what === "line")
        oracle.lines.set([job, node, attempt, word, file].join(" "), { at: Number(at), process: file })
      else oracle.puts.set(job!, (oracle.puts.get(job!) ?? new Set()).add(word!))
    }
  return oracle
}

async function allJobs(journal: Journal): Promise<string[]> {
  const found: string[] = []
  for (let after: string | undefined; ; ) {
    const { jobs, next }: JobPage = await journal.listJobs({ limit: 500, after })
    found.push(...jobs.map(({ id }) => id))
    if (next === null) return found
    after = next
  }
}

async function referencesOf(journal: Journal, jobId: string): Promise<Set<string>> {
  const rows = await journal.readFacts([jobId])
  return new Set(rows.flatMap(({ data }) => artifactsInText(data!)))
}

async function heldProblems(journal: Journal, jobId: string, references: Set<string>): Promise<string[]> {
  const rows = await journal.artifacts.list({ owner: localOwner, jobId, limit: 10_000 })
  const held = new Set(rows.map(({ hash }) => hash))
  return [
    ...[...references].filter(hash => !held.has(hash)).map(hash => `job ${jobId} does not hold ${hash}`),
    ...[...held].filter(hash => !references.has(hash)).map(hash => `job ${jobId} holds ${hash} for nothing`),
  ]
}

/** Two sweeps, a day later: the first marks, the second removes. Returns how much they removed. */
async function sweep(
  { journal, content }: KeptParts,
  wanted: Set<string>,
  violations: string[],
): Promise<number> {
  const store = openFolderStore(content)
  let now = Date.now() + 25 * 3600_000
  const artifacts = new Artifacts({
    ...{ rows: journal.artifacts, content: store, location: content, now: () => now },
    settings: artifactSettings({ orphanHours: 24, sweepSeconds: 3600 }),
  })
  const before = await keysIn(content)
  await artifacts.sweep()
  now += 3600_000
  await artifacts.sweep()
  const left = await keysIn(content)
  const keys = new Set<string>()
  for (const hash of wanted) {
    const row = await journal.artifacts.read({ owner: localOwner, hash })
    const found = row?.key == null ? null : await readFile(join(content, row.key)).catch(() => null)
    if (found === null) violations.push(`${hash} has no content`)
    else if (`sha256:${createHash("sha256").update(found).digest("hex")}` !== hash)
      violations.push(`${hash} has the content "${found.toString().slice(0, 100)}"`)
    if (row?.key != null) keys.add(row.key)
  }
  for (const key of left) if (!keys.has(key)) violations.push(`${key} is left behind by sweeps`)
  return before.length - left.length
}

/** Without what was not yet complete. */
async function keysIn(content: string): Promise<string[]> {
  const entries = await readdir(content, { recursive: true, withFileTypes: true }).catch(() => [])
  return entries
    .filter(entry => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(content.length + 1))
    .filter(key => !key.startsWith(".incoming"))
}

async function lineProblems(
  journal: Journal,
  jobId: string,
  { oracle, stored }: { readonly oracle: Oracle; readonly stored: Set<string> },
): Promise<string[]> {
  const rows = await journal.logs.read({ jobId, level: 0, from: 0, limit: 100_000, maxBytes: 2 ** 30 })
  const problems: string[] = []
  /** By run: the number of its last line so far. */
  const last = new Map<string, number>()
  const files = new Map<string, string>()
  for (const { nodeId, item, fence, run, firstLine, lastLine, lost, lines } of rows) {
    const words = `${jobId} ${item < 0 ? nodeId : `${nodeId}[${item}]`} ${fence}`
    const ofRun = `${words}, run ${run}`
    const before = last.get(ofRun) ?? 0
    if (firstLine !== before + lost + 1)
      problems.push(`line ${firstLine} of ${ofRun} follows ${before}, and ${lost} are shown as lost`)
    last.set(ofRun, lastLine)
    for (const [index, [, , message, fields]] of (JSON.parse(lines!) as StoredLine[]).entries()) {
      // The worker's own line after those of a handler that failed.
      if (message === "the handler threw") continue
      if (message !== `${words} ${firstLine + index}`)
        problems.push(`line ${firstLine + index} of ${words} says "${message}"`)
      const { file } = fields as { readonly file: string }
      if (file !== (files.get(ofRun) ?? file))
        problems.push(
          `line ${firstLine + index} of ${ofRun} is of ${file}, others are of ${files.get(ofRun)}`,
        )
      files.set(ofRun, file)
      const logged = `${message} ${file}`
      if (!oracle.lines.has(logged)) problems.push(`"${logged}" was never logged`)
      if (stored.has(logged)) problems.push(`"${logged}" is stored twice`)
      stored.add(logged)
    }
  }
  return problems
}
