/** What a handler returns instead of an output when its node is to wait without holding a worker. */
import type { Outcome } from "../broker/port.ts"
import { wholeTime } from "../core/decide/backoff.ts"
import type { Waiting } from "../core/facts.ts"
import type { Json, JsonObject } from "../core/json.ts"
import { dataSchemaProblem } from "../definition/input/input-schema.ts"
import { formatPath } from "../definition/problem.ts"
import { checkOutput } from "./output.ts"
import type { Redactor } from "./redact.ts"

/** A registered symbol: a user's module may have loaded a second copy of this one. */
const brand = Symbol.for("umbra.wait")

export type Wait =
  | {
      readonly [brand]: "child"
      readonly workflow: string
      readonly input: unknown
      readonly isPipeline?: true
    }
  | { readonly [brand]: "timer"; readonly until: number; readonly output: unknown }
  | {
      readonly [brand]: "signal"
      readonly name: string
      readonly until?: number
      readonly default?: unknown
      readonly schema?: JsonObject
    }
  | { readonly [brand]: "external"; readonly externalId: string }

/** Returned by the built-in handler `workflow`: a child job does the work, and its end is the node's. */
export function runWorkflow(workflow: string, input: unknown): Wait {
  return { [brand]: "child", workflow, input }
}

/** Returned by the built-in handler `pipeline`: the node ends when the execution has drained. */
export function runPipeline(pipeline: string, input: unknown): Wait {
  return { [brand]: "child", workflow: pipeline, input, isPipeline: true }
}

/**
 * `return waitUntil(time, output)`: the node waits until then, across restarts, and completes with `output`.
 */
export function waitUntil(time: Date | number, output: unknown = null): Wait {
  const until = Number(time)
  if (!Number.isFinite(until)) throw new TypeError("waitUntil expects a Date or milliseconds since 1970.")
  return { [brand]: "timer", until: wholeTime(until), output }
}

/** A schema is stored with the wait, and read whenever the job is. */
const MAX_SCHEMA_BYTES = 64 * 1024

/**
 * `return waitForSignal(name)`: the node waits for a signal and completes with its data. At `until` it
 * completes with `default`, or fails (E416) where there is none. `schema`: a JSON Schema; while the node waits, other data
 * is rejected (E317), and the defaults in it are applied.
 */
export function waitForSignal(
  name: string,
  options: {
    readonly until?: Date | number
    readonly default?: unknown
    readonly schema?: Readonly<Record<string, unknown>>
  } = {},
): Wait {
  if (typeof name !== "string" || name === "") throw new TypeError("waitForSignal expects the signal's name.")
  const schema = options.schema === undefined ? {} : { schema: checkedSchema(options.schema) }
  if (options.until === undefined) {
    if (options.default === undefined) return { [brand]: "signal", name, ...schema }
    throw new TypeError("waitForSignal: the node completes with default at until, so until is required.")
  }
  const until = Number(options.until)
  if (!Number.isFinite(until))
    throw new TypeError("waitForSignal: until must be a Date or milliseconds since 1970.")
  const wait = { [brand]: "signal", name, until: wholeTime(until), ...schema } as const
  return options.default === undefined ? wait : { ...wait, default: options.default }
}

function checkedSchema(given: unknown): JsonObject {
  const limits = { maxBytes: MAX_SCHEMA_BYTES, what: "schema of waitForSignal" }
  const { value } = checkOutput(given, limits)
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new TypeError("waitForSignal: schema must be a JSON Schema, an object.")
  const problem = dataSchemaProblem(value as JsonObject)
  if (problem !== undefined) {
    const path = formatPath(["schema", ...problem.path])
    throw new TypeError(`waitForSignal: ${path}: ${problem.message}`)
  }
  return value as JsonObject
}

/**
 * `return submitted(id)`, in a node with `provider:`: the provider has accepted the work under this id. The
 * node waits, across restarts, for its webhook or for the result of a poll, whichever is first
 * (docs/reference/providers.md).
 */
export function submitted(externalId: string): Wait {
  const problem = externalIdProblem(externalId)
  if (problem !== undefined)
    throw new TypeError(`submitted expects the provider's id of the operation, but ${problem}.`)
  return { [brand]: "external", externalId }
}

/**
 * Why a value cannot be the id of an operation. Ids are stored and compared as text. The message does not
 * contain the value: it comes from outside.
 */
export function externalIdProblem(value: unknown): string | undefined {
  if (typeof value !== "string") return "the id is not a text"
  if (value === "") return "the id is empty"
  // In a path no encoding keeps them from being resolved.
  if (value === "." || value === "..")
    return `the id is "${value}", which would name another resource in a URL`
  if (value.length > 1000 || [...value].length > 500) return "the id is longer than 500 characters"
  if (/\p{Cc}/u.test(value)) return "the id contains a control character"
  if (/\p{Surrogate}/u.test(value)) return "the id contains a lone surrogate (half a character)"
  return undefined
}

export function isExternalId(value: unknown): value is string {
  return externalIdProblem(value) === undefined
}

export function isWait(value: unknown): value is Wait {
  return typeof value === "object" && value !== null && brand in value
}

/** `value` is already checked: the output of the node when its time comes, or the child's input. */
export function outcomeOfWait(wait: Wait, value: Json, redactor: Redactor | null): Outcome {
  const clean = (text: string) => redactor?.clean(text) ?? text
  switch (wait[brand]) {
    case "child":
      return {
        type: "child",
        workflow: clean(wait.workflow),
        input: value,
        ...(wait.isPipeline ? { isPipeline: true } : {}),
      }
    case "external":
      return { type: "submitted", externalId: clean(wait.externalId) }
    default:
      return { type: "waiting", waiting: toWaiting(wait as Timed, value, redactor) }
  }
}

type Timed = Extract<Wait, { readonly [brand]: "timer" | "signal" }>

/** Secrets are removed from the name and the schema. */
function toWaiting(wait: Timed, output: Json, redactor: Redactor | null): Waiting {
  if (wait[brand] === "timer") return { kind: "timer", until: wait.until, output }
  const { until, schema: given } = wait
  const name = redactor?.clean(wait.name) ?? wait.name
  const schema =
    given === undefined ? {} : { schema: (redactor === null ? given : redactor.value(given)) as JsonObject }
  if (until === undefined) return { kind: "signal", name, ...schema }
  const waiting = { kind: "signal", name, until, ...schema } as const
  return wait.default === undefined ? waiting : { ...waiting, default: output }
}

/** The part of a wait that must be JSON. */
export function jsonPart(wait: Wait): unknown {
  switch (wait[brand]) {
    case "child":
      return wait.input
    case "timer":
      return wait.output
    case "signal":
      return wait.default ?? null
    case "external":
      return null
  }
}
