/**
 * Identifies this process, and tells whether another process is still alive. A pid alone is not enough: it is
 * reused, and it has no meaning in another container or on another machine that shares the store.
 */
import { readFileSync, readlinkSync } from "node:fs"
import { hostname } from "node:os"

export interface ProcessIdentity {
  readonly pid: number
  readonly host: string
  /**
   * Linux: the boot and the pid namespace that the pid belongs to, and the start time of the process.
   * Otherwise empty.
   */
  readonly boot: string
  readonly namespace: string
  readonly started: string
}

export type Life = "alive" | "dead" | "unknown"

let own: ProcessIdentity | null = null

export function ownIdentity(): ProcessIdentity {
  own ??= identify()
  return own
}

function identify(): ProcessIdentity {
  const boot = orEmpty(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim())
  const namespace = orEmpty(() => readlinkSync("/proc/self/ns/pid"))
  const started = processStat(process.pid)?.started ?? ""
  return { pid: process.pid, host: hostname(), boot, namespace, started }
}

/** Is its pid valid here? Not that of another machine, boot or container. */
export function isVisible(other: ProcessIdentity, own: ProcessIdentity): boolean {
  return other.host === own.host && other.boot === own.boot && other.namespace === own.namespace
}

/** "unknown" where this process cannot see the other one: only a heartbeat can tell. */
export function checkLife(other: ProcessIdentity, own: ProcessIdentity): Life {
  if (!isVisible(other, own)) return "unknown"
  if (!pidExists(other.pid)) return "dead"
  const stat = processStat(other.pid)
  if (!stat || other.started === "") return "unknown"
  return stat.started === other.started && !stat.zombie ? "alive" : "dead"
}

function pidExists(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: it exists and belongs to another user.
    return (error as NodeJS.ErrnoException).code !== "ESRCH"
  }
}

/**
 * /proc/PID/stat: the name in brackets may contain spaces and brackets; the state follows it, the start time
 * is field 22.
 */
function processStat(pid: number): { started: string; zombie: boolean } | null {
  const stat = orEmpty(() => readFileSync(`/proc/${pid}/stat`, "utf8"))
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  const started = fields[19]
  return started === undefined ? null : { started, zombie: fields[0] === "Z" || fields[0] === "X" }
}

function orEmpty(read: () => string): string {
  try {
    return read()
  } catch {
    return ""
  }
}
