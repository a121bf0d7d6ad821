/**
 * Runs our own synchronous code with a time limit: the only way in Node to stop a regular expression or a search that a
 * hostile schema made exponential. `vm` is used only as a timer; it compiles nothing but the constant below. A call costs
 * some 80 µs, so callers use it only for risky code.
 */
import { Script } from "node:vm"

const slot = Symbol.for("umbra.deadline.work")
const call = new Script('globalThis[Symbol.for("umbra.deadline.work")]()')

export class DeadlineError extends Error {}

export function withinDeadline<T>(milliseconds: number, work: () => T): T {
  const holder = globalThis as { [slot]?: () => T }
  const outer = holder[slot]
  holder[slot] = work
  try {
    return call.runInThisContext({ timeout: milliseconds }) as T
  } catch (error) {
    const isTimeout =
      error instanceof Error && "code" in error && error.code === "ERR_SCRIPT_EXECUTION_TIMEOUT"
    throw isTimeout ? new DeadlineError(`not done within ${milliseconds} ms`) : error
  } finally {
    if (outer === undefined) delete holder[slot]
    else holder[slot] = outer
  }
}
