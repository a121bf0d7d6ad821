/** What a process does with its files, as strace sees it. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFile } from "node:fs/promises"

export interface Call {
  readonly name: string
  /** The paths and texts in its arguments, as strace prints them with `-y`. */
  readonly args: string
}

/** The calls of a finished trace in the order in which they took effect: a sync when it has returned, all others when they begin. */
function parseTrace(text: string): Call[] {
  const calls: Call[] = []
  const unfinished = new Map<string, Call>()
  for (const line of text.split("\n")) {
    const [, thread, rest] = /^(\d+)\s+(.*)$/.exec(line) ?? []
    if (thread === undefined || rest === undefined) continue
    const begun = /^(\w+)\((.*)$/.exec(rest)
    if (begun === null) {
      // <... fdatasync resumed>) = 0
      const call = unfinished.get(thread)
      unfinished.delete(thread)
      if (call !== undefined && / = 0$/.test(rest)) calls.push(call)
      continue
    }
    const call = { name: begun[1]!, args: begun[2]! }
    const isOpen = rest.endsWith("<unfinished ...>")
    if (!isSync(call)) calls.push(call)
    else if (isOpen) unfinished.set(thread, call)
    else if (/ = 0$/.test(rest)) calls.push(call)
  }
  return calls
}

export const isSync = ({ name }: Call): boolean => name === "fsync" || name === "fdatasync"

/** Runs Node with these arguments under strace until it ends; what it has done with files. */
export async function traced(args: readonly string[], trace: string): Promise<Call[]> {
  const calls = "trace=mkdir,openat,pwrite64,write,fsync,fdatasync,rename,renameat2,unlink,ftruncate"
  const child = spawn(
    "strace",
    ["-f", "-y", "-s", "80", "-e", calls, "-o", trace, process.execPath, ...args],
    {
      stdio: ["ignore", "ignore", "pipe"],
    },
  )
  let errors = ""
  child.stderr.on("data", (text: Buffer) => {
    errors += text
  })
  const [code] = (await once(child, "close")) as [number | null]
  if (code !== 0) throw new Error(`the traced process ended with ${code}: ${errors}`)
  return parseTrace(await readFile(trace, "utf8"))
}
