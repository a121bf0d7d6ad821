/**
 * A private server process in a separate temporary folder.
 *
 * 1. It never outlives this process unless that is killed with SIGKILL: `stop` ends it, and so does the exit
 *    of this process.
 * 2. It is ended by its pid, never by its name.
 * 3. It has its own process group, so Ctrl-C in the terminal reaches only this process, which chooses the
 *    order in which services end.
 * 4. It writes to a file, so that it never blocks on a full pipe.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { rmSync } from "node:fs"
import { appendFile, chown, mkdtemp, open, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import type { Owner } from "./owner.ts"

const START_MS = 30_000
const END_MS = 10_000
const PAUSE_MS = 25
const REMOVAL = { recursive: true, force: true, maxRetries: 20, retryDelay: 50 } as const

export interface Recipe {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly folder: string
  readonly owner: Owner | null
  /** Called once, before the first start. */
  prepare?(): Promise<void>
  /** Ends the process gracefully, keeping its data. */
  readonly restartSignal: NodeJS.Signals
  /** Ends the process fast; its data is removed with the folder. */
  readonly stopSignal: NodeJS.Signals
  /** Does the server answer? Rejects or resolves to false as long as it does not. */
  ready(): Promise<boolean>
}

export interface Service {
  readonly folder: string
  /** Changes with every restart. */
  pid(): number
  /** Ends the process with the given signal (default SIGKILL) and keeps the folder, for `restart`. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /** Starts it again on the same port and folder, after ending it gracefully if it runs. */
  restart(): Promise<void>
  /** Ends the process and removes the folder. */
  stop(): Promise<void>
}

export async function serviceFolder(name: string, owner: Owner | null): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `umbra-${name}-`))
  if (owner) await chown(folder, owner.uid, owner.gid)
  return folder
}

export async function startService(recipe: Recipe): Promise<Service> {
  let child: ChildProcess | null = null
  const start = async (patience: Patience) => {
    child = await spawnLogged(recipe)
    while (!(await answers(recipe, child, patience))) child = await spawnLogged(recipe)
  }
  const atExit = () => {
    child?.kill("SIGKILL")
    rmSync(recipe.folder, REMOVAL)
  }
  const stop = async () => {
    if (child) await end(child, recipe.stopSignal)
    await rm(recipe.folder, REMOVAL)
    process.removeListener("exit", atExit)
  }
  process.once("exit", atExit)
  try {
    await recipe.prepare?.()
    await start({ until: performance.now() + START_MS, again: false })
  } catch (error) {
    await stop()
    throw error
  }
  return {
    folder: recipe.folder,
    pid: () => child?.pid ?? 0,
    async kill(signal = "SIGKILL") {
      if (child) await end(child, signal)
    },
    async restart() {
      if (child) await end(child, recipe.restartSignal)
      await start({ until: performance.now() + START_MS, again: true })
    },
    stop,
  }
}

interface Patience {
  readonly until: number
  /**
   * Should a process that exits by itself be started again? After a SIGKILL it should: the old server's
   * children may hold its shared memory for a moment, and PostgreSQL then correctly refuses to start.
   */
  readonly again: boolean
}

/** Returns true once the server answers, false if it exited and should be started again; throws otherwise. */
async function answers(recipe: Recipe, child: ChildProcess, patience: Patience): Promise<boolean> {
  while (isRunning(child) && performance.now() < patience.until) {
    if (await recipe.ready().catch(() => false)) return true
    await delay(PAUSE_MS)
  }
  if (patience.again && performance.now() < patience.until) return false
  await end(child, "SIGKILL")
  throw new Error(`${recipe.name} did not start:\n${await lastLines(recipe)}`)
}

async function spawnLogged(recipe: Recipe): Promise<ChildProcess> {
  const log = await open(logFile(recipe), "a")
  try {
    const child = spawn(recipe.command, recipe.args, {
      cwd: recipe.folder,
      detached: true,
      stdio: ["ignore", log.fd, log.fd],
      ...recipe.owner,
    })
    child.once("error", error => void appendFile(logFile(recipe), `${error.message}\n`))
    return child
  } finally {
    await log.close()
  }
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (!isRunning(child)) return
  const exited = once(child, "exit")
  child.kill(signal)
  const timer = setTimeout(() => child.kill("SIGKILL"), END_MS)
  await exited
  clearTimeout(timer)
}

const isRunning = (child: ChildProcess): boolean =>
  child.pid !== undefined && child.exitCode === null && child.signalCode === null

const logFile = (recipe: Recipe): string => join(recipe.folder, "log")

const lastLines = async (recipe: Recipe): Promise<string> =>
  (await readFile(logFile(recipe), "utf8")).trim().split("\n").slice(-10).join("\n")
