/**
 * Compares log lines and artifacts that the API shows with what the handlers recorded in files of their own (handlers.js).
 *
 * 1. Each line is shown once, whole, and with its number. A line that is missing was logged by a process that was killed less than the
 *    flush time later.
 * 2. Each reference in an output was returned to a handler of its job, is listed for the job, and has the content that was stored.
 * 3. Each attempt that was lost with its worker has a line of the engine that says so.
 * 4. Another owner sees none of it, unless it stored the same content itself.
 */
import { createHash } from "node:crypto"
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { ask } from "../server/stage.ts"
import type { Kill } from "./judge.ts"

/** Lines are stored at most so much later than they are logged. */
const FLUSH_MS = 200

interface KeptRecords {
  /** By "JOB NODE ITEM FENCE NUMBER". */
  readonly lines: ReadonlyMap<string, { readonly pid: number; readonly at: number; readonly times: number }>
  /** By job: hashes and their content. */
  readonly puts: ReadonlyMap<string, ReadonlyMap<string, string>>
}

export async function readKept(folder: string): Promise<KeptRecords> {
  const lines = new Map<string, { pid: number; at: number; times: number }>()
  const puts = new Map<string, Map<string, string>>()
  for (const file of (await readdir(folder)).filter(name => name.startsWith("kept-")))
    for (const record of (await readFile(join(folder, file), "utf8")).split("\n").filter(Boolean)) {
      const [what, job, ...words] = record.split(" ") as [string, string, ...string[]]
      if (what === "line") {
        const [pid, time] = words.splice(-2) as [string, string]
        const key = [job, ...words].join(" ")
        const times = (lines.get(key)?.times ?? 0) + 1
        lines.set(key, { pid: Number(pid), at: Number(BigInt(time)) / 1e6, times })
      } else {
        const stored = puts.get(job) ?? new Map<string, string>()
        puts.set(job, stored.set(words[0]!, Buffer.from(words[1]!, "base64").toString()))
      }
    }
  return { lines, puts }
}

export interface KeptParts {
  readonly url: string
  readonly records: KeptRecords
  /** By job: the token of its owner. */
  readonly tokens: ReadonlyMap<string, string>
  /** By job: its nodes as the API shows them. */
  readonly nodes: ReadonlyMap<string, readonly ShownNode[]>
  readonly kills: readonly Kill[]
  /** How long the machine delayed every process at that time. */
  readonly stallAt: (time: number) => number
}

interface ShownNode {
  readonly id: string
  readonly output: unknown
  readonly attempts?: readonly { readonly outcome: string }[]
}

export async function keptProblems(parts: KeptParts): Promise<string[]> {
  const problems: string[] = []
  const shown = new Set<string>()
  for (const job of parts.tokens.keys()) {
    problems.push(...(await lineProblems(parts, job, shown)))
    problems.push(...(await lossProblems(parts, job)))
    problems.push(...(await artifactProblems(parts, job)))
  }
  for (const [line, { pid, at }] of parts.records.lines) {
    if (shown.has(line)) continue
    const kill = parts.kills.find(each => each.pid === pid)
    if (kill === undefined) problems.push(`line "${line}" is not shown, and its process was not killed`)
    else if (kill.at - at > FLUSH_MS + 2 * parts.stallAt(kill.at))
      problems.push(`line "${line}" is not shown, although it was logged ${kill.at - at} ms before the kill`)
  }
  return problems
}

interface ShownLine {
  readonly node: string
  readonly item?: number
  readonly message: string
  readonly line: number
  readonly run?: number
  readonly lost?: number
}

async function lineProblems(
  { url, tokens, records }: KeptParts,
  job: string,
  shown: Set<string>,
): Promise<string[]> {
  const problems: string[] = []
  const last = new Map<string, number>()
  const shownTimes = new Map<string, number>()
  const logged = await shownLines(url, `/jobs/${job}/logs?source=handler`, tokens.get(job)!)
  for (const { node, item = -1, message, line, run = 1, lost = 0 } of logged) {
    // The worker's own line after those of a handler that failed.
    if (message === "the handler threw") continue
    const [words, second] = message.split("\n") as [string, string | undefined]
    const number = Number(words.split(" ").at(-1))
    const attempt = words.slice(0, words.lastIndexOf(" "))
    if (!words.startsWith(`${job} ${node} ${item} `)) problems.push(`${job} ${node} ${item} shows "${words}"`)
    if (!records.lines.has(words)) problems.push(`"${words}" was never logged`)
    const times = (shownTimes.get(words) ?? 0) + 1
    shownTimes.set(words, times)
    if (times > (records.lines.get(words)?.times ?? 0)) problems.push(`"${words}" is shown ${times} times`)
    const ofRun = `${attempt}, run ${run}`
    if (line <= (last.get(ofRun) ?? 0)) problems.push(`"${words}" is shown twice in ${ofRun}`)
    if (line !== number) problems.push(`"${words}" is shown as line ${line}`)
    if ((second !== undefined) !== (number % 2 === 0)) problems.push(`"${words}" is not shown whole`)
    if (line !== (last.get(ofRun) ?? 0) + lost + 1)
      problems.push(`"${words}" follows line ${last.get(ofRun)} of ${ofRun}, and ${lost} are shown as lost`)
    last.set(ofRun, line)
    shown.add(words)
  }
  return problems
}

async function lossProblems({ url, tokens, nodes }: KeptParts, job: string): Promise<string[]> {
  const lines = await shownLines(url, `/jobs/${job}/logs?source=engine`, tokens.get(job)!)
  return nodes.get(job)!.flatMap(({ id, attempts = [] }) => {
    const lost = attempts.filter(({ outcome }) => outcome === "lost").length
    const own = lines.filter(({ node, item }) => node === id && item === undefined)
    const shown = own.filter(({ message }) => message.startsWith("lost with worker")).length
    return shown === lost ? [] : [`${job} ${id}: ${lost} attempts were lost, and ${shown} lines say so`]
  })
}

async function shownLines(url: string, path: string, token: string): Promise<ShownLine[]> {
  const lines: ShownLine[] = []
  for (let after = ""; ; ) {
    const { status, body } = await ask(url, `${path}&limit=1000${after}`, { token })
    if (status !== 200) throw new Error(`${path}: ${status} ${JSON.stringify(body)}`)
    lines.push(...body.lines)
    if (body.next === null) return lines
    after = `&after=${body.next}`
  }
}

async function artifactProblems(parts: KeptParts, job: string): Promise<string[]> {
  const { url, tokens, records, nodes } = parts
  const token = tokens.get(job)!
  const others = [...new Set(tokens.values())].filter(each => each !== token)
  const problems: string[] = []
  const expect = async (path: string, given: string | undefined, status: number) => {
    const answer = await ask(url, path, given === undefined ? {} : { token: given })
    if (answer.status !== status) problems.push(`${path}: ${answer.status}, not ${status}`)
    return answer
  }
  for (const path of [`/jobs/${job}/logs`, `/jobs/${job}/artifacts`]) {
    for (const other of others) await expect(path, other, 404)
    await expect(path, undefined, 401)
  }
  const text = JSON.stringify(nodes.get(job)!.map(({ output }) => output))
  const references = [...new Set(text.match(/sha256:[0-9a-f]{64}/g) ?? [])].sort()
  const { body } = await expect(`/jobs/${job}/artifacts?limit=1000`, token, 200)
  const listed = (body.artifacts as { artifact: string }[]).map(({ artifact }) => artifact).sort()
  if (listed.join() !== references.join())
    problems.push(`${job} refers to ${references}, and its list has ${listed}`)
  for (const hash of references) {
    const stored = records.puts.get(job)?.get(hash)
    if (stored === undefined) problems.push(`${job} refers to ${hash}, which no handler of it has stored`)
    const { body: content } = await expect(`/artifacts/${hash}`, token, 200)
    if (content !== stored) problems.push(`${hash} has the content "${content}", not "${stored}"`)
    if (hash !== `sha256:${createHash("sha256").update(String(content)).digest("hex")}`)
      problems.push(`${hash} is not the hash of its content`)
    for (const other of others)
      await expect(`/artifacts/${hash}`, other, hasStored(parts, other, hash) ? 200 : 404)
  }
  return problems
}

function hasStored({ tokens, records }: KeptParts, token: string, hash: string): boolean {
  return [...tokens].some(([job, own]) => own === token && records.puts.get(job)?.has(hash) === true)
}
