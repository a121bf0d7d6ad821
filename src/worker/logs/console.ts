/**
 * Captures what handlers print with `console`: a line belongs to the attempt in whose asynchronous context it was printed. It is
 * printed as before, too.
 */
import { AsyncLocalStorage } from "node:async_hooks"
import { format } from "node:util"
import type { LogLevel } from "../../log.ts"

interface Printing {
  printed(level: LogLevel, text: string): void
}

const levels = { debug: "debug", log: "info", info: "info", warn: "warn", error: "error" } as const

const current = new AsyncLocalStorage<Printing>()
let isInstalled = false

export function capturingConsole<T>(attempt: Printing, run: () => T): T {
  if (!isInstalled) install()
  return current.run(attempt, run)
}

/** Once for the process: outside of attempts the methods only print. */
function install(): void {
  isInstalled = true
  for (const [method, level] of Object.entries(levels) as [keyof typeof levels, LogLevel][]) {
    const print = console[method].bind(console)
    console[method] = (...given: unknown[]) => {
      current.getStore()?.printed(level, format(...given))
      print(...given)
    }
  }
}
