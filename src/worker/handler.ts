/** What a user writes to do a node's work: `defineHandler({ name, config, output, run })`. */
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { Fault } from "../core/faults.ts"
import type { Json, JsonObject } from "../core/json.ts"
import type { HandlerSpec } from "../definition/handler.ts"
import { UmbraError } from "../errors.ts"
import type { HandlerLog } from "../log.ts"
import type { HandlerArtifacts } from "./artifacts.ts"
import type { Wait } from "./waiting.ts"

/** The second argument of `run`. It can be destructured: `run(config, { signal, log })`. */
export interface HandlerContext {
  /**
   * Fires on timeout, a missed heartbeat, cancellation and shutdown; `signal.reason` is the reason. Pass it
   * on: a handler that ignores it loses its slot after the grace period.
   */
  readonly signal: AbortSignal
  /**
   * The same for every attempt at this node of this job: for services that recognise repetitions. It changes
   * after an operation that its provider reported as failed.
   */
  readonly idempotencyKey: string
  /** The node's `provider`; null: it has none. */
  readonly provider: string | null
  /** The number of attempts at this node that have begun and were not handed over to another process. */
  readonly attempt: number
  /** Rises each time the node is dispatched, for any reason: no two runs have the same. */
  readonly fence: number
  readonly jobId: string
  readonly nodeId: string
  /** The job's input. */
  readonly input: Json
  /** The outputs of the node's dependencies by id, read on first use. */
  readonly parents: JsonObject
  /** Milliseconds since 1970, by the engine's clock. */
  now(): number
  /**
   * Reports that the handler is alive. A node with `heartbeat_seconds` fails early when none arrives for this
   * long; `progress` and `preview` count as heartbeats. Cheap enough for every step of a loop.
   */
  heartbeat(): void
  /**
   * The latest value replaces earlier ones; nothing is stored. `percent` is 0 to 100, or null if it is not
   * known.
   */
  progress(percent: number | null, message?: string): void
  /** Shows partial results on the job. JSON only. */
  preview(data: unknown): void
  /** Numbers that are summed per key on the node and the job: `usage({ tokens: 120, usd: 0.002 })`. */
  usage(amounts: Readonly<Record<string, number>>): void
  /**
   * For a node with `provider`: waits for another place in the provider's rate, before every request but the
   * first. The first has its place when `run` is called.
   */
  place(): Promise<void>
  /** Files and other large content, beside the job: outputs refer to it. */
  readonly artifacts: HandlerArtifacts
  /** Stored with the attempt until it ends; the process log has every entry. */
  readonly log: HandlerLog
}

type Returned<Output> = Output | Wait | Promise<Output | Wait>

/** Should the error be retried? `undefined`: the table of faults decides. */
export type RetryRule = boolean | ((error: unknown, fault: Fault) => boolean | undefined)

export interface Handler<Config = unknown, Output = unknown> extends HandlerSpec<Config, Output> {
  /** The number of attempts of this handler that may run at once in one worker. */
  readonly concurrency?: number
  /**
   * Runs in a worker thread and can really be killed: for CPU-bound work. The value is the module that
   * exports the handler (`thread: import.meta.url`); `true` stands for the module given to `--handlers`.
   */
  readonly thread?: boolean | string | URL
  readonly retryable?: RetryRule
  // A method, so that a handler of any config is a `Handler`.
  run(config: Config, ctx: HandlerContext): unknown
}

/** A registered symbol: a user's module may have loaded a second copy of this one. */
const brand = Symbol.for("umbra.handler")

type Parsed<S> = S extends StandardSchemaV1 ? StandardSchemaV1.InferOutput<S> : Json
type Given<S> = S extends StandardSchemaV1 ? Returned<StandardSchemaV1.InferInput<S>> : unknown
type Schemas<C, O> = (C extends StandardSchemaV1 ? { readonly config: C } : unknown) &
  (O extends StandardSchemaV1 ? { readonly output: O } : unknown)

export interface HandlerDefinition<C, O> {
  readonly name: string
  /** zod, or any Standard Schema. `run` receives its result. Absent: any JSON. */
  readonly config?: C
  /** Checks what `run` returns; its result is stored. Absent: any JSON. */
  readonly output?: O
  readonly storesConfig?: boolean
  /**
   * Whether a run changes anything outside of Umbra: false, "keyed" (a repetition with the same config changes nothing
   * more) or true (a fork asks before it repeats the node). Absent: not known.
   */
  readonly effects?: boolean | "keyed"
  /** false: `run` does not read `ctx.input`. A fork with another input need not repeat the node. */
  readonly readsInput?: boolean
  readonly concurrency?: number
  readonly thread?: boolean | string | URL
  readonly retryable?: RetryRule
  readonly run: (config: Parsed<C>, ctx: HandlerContext) => Given<O>
}

/** A handler whose config and output have the types of their schemas. */
export type DefinedHandler<C, O> = Handler<Parsed<C>, Parsed<O>> & Schemas<C, O>

export function defineHandler<
  C extends StandardSchemaV1 | undefined = undefined,
  O extends StandardSchemaV1 | undefined = undefined,
>(definition: HandlerDefinition<C, O>): DefinedHandler<C, O> {
  const problem = findProblem(definition)
  if (problem !== undefined) throw new UmbraError("E602", `defineHandler: ${problem}`)
  return Object.freeze({ ...definition, [brand]: true }) as unknown as DefinedHandler<C, O>
}

export function isHandler(value: unknown): value is Handler {
  return typeof value === "object" && value !== null && brand in value
}

/** The same handler, with the module that a thread must load to find it. */
export function inModule<H extends Handler>(handler: H, module: string): H {
  return Object.freeze({ ...handler, thread: module })
}

function findProblem(definition: HandlerDefinition<unknown, unknown>): string | undefined {
  const { name, run, concurrency } = definition
  if (typeof name !== "string" || name === "" || name.length > 200)
    return "name must be a text of 1 to 200 characters."
  if (typeof run !== "function") return `handler "${name}" needs a function run(config, ctx).`
  for (const key of ["config", "output"] as const) {
    const schema = definition[key]
    if (schema === undefined) continue
    const standard = (schema as Partial<StandardSchemaV1> | null)?.["~standard"]
    if (typeof standard?.validate === "function") continue
    return `${key} of handler "${name}" must be a zod schema or another Standard Schema.`
  }
  if (definition.effects !== undefined && ![true, false, "keyed"].includes(definition.effects))
    return `effects of handler "${name}" must be true, false or "keyed".`
  if (definition.readsInput !== undefined && typeof definition.readsInput !== "boolean")
    return `readsInput of handler "${name}" must be true or false.`
  if (concurrency !== undefined && !(Number.isInteger(concurrency) && concurrency >= 1)) {
    return `concurrency of handler "${name}" must be a whole number of at least 1.`
  }
  return undefined
}
