/** What a handler returns instead of an output when its node should wait without holding a worker. */
import type { Waiting } from "../core/facts.ts"
import type { Json } from "../core/json.ts"
import { wholeTime } from "../core/whole-time.ts"

/** A registered symbol: a user's module may have loaded a second copy of this one. */
const brand = Symbol.for("umbra.wait")

export type Wait =
  | { readonly [brand]: "timer"; readonly until: number; readonly output: unknown }
  | { readonly [brand]: "signal"; readonly name: string; readonly until?: number }
  | { readonly [brand]: "external"; readonly externalId: string }

/** `return waitUntil(time, output)`: the node waits until then, over restarts, and completes with `output`. */
export function waitUntil(time: Date | number, output: unknown = null): Wait {
  const until = Number(time)
  if (!Number.isFinite(until)) throw new TypeError("waitUntil expects a Date or milliseconds since 1970.")
  return { [brand]: "timer", until: wholeTime(until), output }
}

/** `return waitForSignal(name)`: the node waits for a signal and completes with what it carries; it fails at `until`. */
export function waitForSignal(name: string, options: { readonly until?: Date | number } = {}): Wait {
  if (typeof name !== "string" || name === "") throw new TypeError("waitForSignal expects the signal's name.")
  if (options.until === undefined) return { [brand]: "signal", name }
  const until = Number(options.until)
  if (!Number.isFinite(until))
    throw new TypeError("waitForSignal: until must be a Date or milliseconds since 1970.")
  return { [brand]: "signal", name, until: wholeTime(until) }
}

/**
 * `return submitted(id)`, in a node with `provider:`: the provider has taken the work under this name. The node waits,
 * over restarts, for its webhook or for what a poll finds, whichever is first (docs/providers.md).
 */
export function submitted(externalId: string): Wait {
  if (!isExternalId(externalId))
    throw new TypeError(
      "submitted expects the provider's name for the operation: 1 to 500 characters, none of them a control character.",
    )
  return { [brand]: "external", externalId }
}

/** Names are stored and compared as text. */
export function isExternalId(value: unknown): value is string {
  return typeof value === "string" && /^[^\p{Cc}\p{Surrogate}]{1,500}$/u.test(value)
}

export function isWait(value: unknown): value is Wait {
  return typeof value === "object" && value !== null && brand in value
}

/** `output` has been checked by then: it is what the timer's node completes with. `clean` takes secrets out of a name. */
export function waitingOf(
  wait: Exclude<Wait, { readonly [brand]: "external" }>,
  output: Json,
  clean: (text: string) => string,
): Waiting {
  if (wait[brand] === "timer") return { kind: "timer", until: wait.until, output }
  const { until } = wait
  const name = clean(wait.name)
  return until === undefined ? { kind: "signal", name } : { kind: "signal", name, until }
}

/** undefined: it waits for something else. */
export function externalIdOf(wait: Wait): string | undefined {
  return wait[brand] === "external" ? wait.externalId : undefined
}

export function outputOf(wait: Wait): unknown {
  return wait[brand] === "timer" ? wait.output : null
}
