/** Runs commands to their end: captures their output, or shows it as it arrives. */
import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process"
import { promisify } from "node:util"

const execute = promisify(execFile)

/** How long a command may take to end after it was signalled, before it is killed. */
const GRACE_MS = 5_000

export interface CaptureOptions {
  readonly cwd?: string
  readonly uid?: number
  readonly gid?: number
  readonly env?: NodeJS.ProcessEnv
  readonly timeout?: number
  readonly signal?: AbortSignal | undefined
}

/** Returns the output of the command. Rejects when it fails, with its standard error. */
export async function capture(command: string, args: readonly string[], options: CaptureOptions = {}) {
  const { stdout } = await execute(command, args, { ...options, encoding: "utf8", maxBuffer: 16 << 20 })
  return stdout.trim()
}

export interface ShowOptions {
  readonly env?: NodeJS.ProcessEnv
  /** Aborted: the command is signalled to end, and killed if it does not. */
  readonly signal?: AbortSignal | undefined
}

/** Runs the command on the current terminal; returns its exit code, 1 when a signal ended it. */
export function show(command: string, args: readonly string[], options: ShowOptions = {}): Promise<number> {
  options.signal?.throwIfAborted()
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: "inherit", env: options.env ?? process.env })
    const end = () => void endChild(child)
    options.signal?.addEventListener("abort", end, { once: true })
    child.once("error", reject)
    child.once("exit", code => {
      options.signal?.removeEventListener("abort", end)
      resolve(code ?? 1)
    })
  })
}

/** Ends the command, and what it leaves behind: busy workers of the tests outlive vitest. */
function endChild(child: ChildProcess): void {
  const begun = new Set(descendantsOf(child.pid!))
  child.kill("SIGTERM")
  const timer = setTimeout(() => {
    for (const pid of descendantsOf(child.pid!)) begun.add(pid)
    child.kill("SIGKILL")
  }, GRACE_MS)
  child.once("exit", () => {
    clearTimeout(timer)
    for (const pid of [...begun, ...[...begun].flatMap(descendantsOf)]) endProcess(pid)
  })
}

/** None on a machine without `ps`. */
function descendantsOf(pid: number): readonly number[] {
  const { stdout } = spawnSync("ps", ["-A", "-o", "ppid=,pid="], { encoding: "utf8" })
  const processes = (stdout ?? "").split("\n").map(line => line.trim().split(/\s+/).map(Number))
  const childrenOf = (of: number): number[] =>
    processes.flatMap(([parent, child]) => (parent === of ? [child!, ...childrenOf(child!)] : []))
  return childrenOf(pid)
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // It has ended.
  }
}
