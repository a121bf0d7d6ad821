import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { Json } from "../core/json.ts"
import type { AdapterSpec } from "../definition/adapter.ts"
import { UmbraError } from "../errors.ts"
import type { Log } from "../log.ts"

/** A message as an adapter sees it. */
export interface Message<Body extends Json = Json> {
  /** `route:number`, unique within its execution. */
  readonly id: string
  readonly body: Body
}

/**
 * What an adapter knows about the message that it processes, and what it can do besides returning a value.
 */
export interface AdapterContext<Config = unknown> {
  readonly config: Config
  readonly jobId: string
  /** The owner of the job. */
  readonly owner: string
  readonly pipeline: string
  readonly route: string
  /** The number of this delivery of the message, from 1. */
  readonly attempt: number
  /** The same for all messages that derive from one initial message. */
  readonly correlationId: string
  /** The message during whose processing this one was emitted; null: it is an initial message. */
  readonly parent: string | null
  /** The same for every delivery of this message to this adapter. */
  readonly idempotencyKey: string
  /**
   * The messages that are processed as one, in the order of their bodies. On redelivery they may be grouped
   * differently, so their idempotency key protects nothing. Empty: it is a single message.
   */
  readonly gathered: readonly string[]
  readonly input: Json
  /**
   * Values of this execution. A value that is put becomes durable with the acknowledgement of the message, or
   * not at all.
   */
  readonly storage: AdapterStorage
  readonly signal: AbortSignal
  readonly log: Log
  /** Sends a message to the outbound queue of its kind when this message is acknowledged. */
  emit(body: Json, options?: EmitOptions): void
  /**
   * When this message is acknowledged, another one with this body takes its place in the queue. This is how a
   * source continues reading.
   */
  continueWith(body: Json): void
  /** Submits a job and returns its id; on redelivery of the message, the id of the same job. */
  submit(workflow: string, input?: Json, options?: { readonly key?: string | undefined }): Promise<string>
}

export interface EmitOptions {
  /** Default: "default". */
  readonly kind?: string
}

export interface AdapterStorage {
  get(key: string): Promise<Json | undefined>
  put(key: string, value: Json): void
  /**
   * True for the first message of the whole execution that claims the key. No other message gets true while
   * that message is being processed, or once it is acknowledged.
   */
  claim(key: string): Promise<boolean>
}

// biome-ignore lint/suspicious/noConfusingVoidType: the return type of a function that returns nothing
export type Answer = Json | undefined | void

export type Processed = Answer | Promise<Answer> | AsyncIterable<Emission> | IterableIterator<Emission>

/**
 * `process` returns the body for the next adapter, or nothing, which ends the chain. A generator emits each
 * value that it yields, and the chain ends with it. An exception fails the message.
 */
export interface Adapter<Config = unknown> extends AdapterSpec<Config> {
  // Methods, so that an adapter of any config is an `Adapter`.
  process(message: Message, context: AdapterContext<Config>): Processed
  /**
   * Messages wait at this adapter until there are enough of them. Then they are processed as one message: its
   * body is the list of their bodies, its config that of the first. On redelivery the groups may differ.
   */
  gather?(config: Config): Gathering
}

/** A yielded body, or a body with a kind (`emission(body, { kind })`). */
export type Emission = Json | EmittedMessage

/** Registered symbols: a package may have loaded a second copy of this module. */
const adapterBrand = Symbol.for("umbra.adapter")
const emissionBrand = Symbol.for("umbra.emission")

export class EmittedMessage {
  readonly body: Json
  readonly kind: string
  readonly [emissionBrand] = true

  constructor(body: Json, kind: string) {
    this.body = body
    this.kind = kind
  }

  static [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === "object" && value !== null && emissionBrand in value
  }
}

export const emission = (body: Json, { kind = "default" }: EmitOptions = {}) => new EmittedMessage(body, kind)

export interface Gathering {
  readonly count: number
  /** The longest wait, from the arrival of the first message of the group. */
  readonly seconds: number
  /** Messages with different keys are gathered separately. */
  readonly key?: string
}

export interface AdapterDefinition<Type extends string, Schema extends StandardSchemaV1 | undefined> {
  readonly type: Type
  /** zod, or any other Standard Schema; checked when a pipeline is loaded. Absent: any JSON. */
  readonly config?: Schema
  /** The adapter stores or forwards values of its config, so the config may not contain secrets (E112). */
  readonly storesConfig?: boolean
  /**
   * The kinds of the messages that the adapter emits with this config, besides the value that it returns. A
   * pipeline whose route has no queue for one of them is rejected (E114). Absent: the kinds are not known
   * before it runs.
   */
  readonly emits?: (config: Parsed<Schema>) => readonly string[]
  /**
   * The adapter writes each message exactly once, so it cannot follow an adapter that gathers in the same
   * route (E115).
   */
  readonly writesOnce?: (config: Parsed<Schema>) => boolean
  /** The adapter uses `context.storage` or `context.submit`, so it cannot run on workers (E115). */
  readonly needsEngine?: boolean
  readonly process: (message: Message, context: AdapterContext<Parsed<Schema>>) => Processed
  readonly gather?: (config: Parsed<Schema>) => Gathering
}

type Parsed<Schema> = Schema extends StandardSchemaV1 ? StandardSchemaV1.InferOutput<Schema> : Json

/** An adapter whose type and config are inferred from its definition. */
export type DefinedAdapter<Type extends string, Schema> = Adapter<Parsed<Schema>> & {
  readonly type: Type
} & (Schema extends StandardSchemaV1 ? { readonly config: Schema } : unknown)

export function defineAdapter<
  const Type extends string,
  Schema extends StandardSchemaV1 | undefined = undefined,
>(definition: AdapterDefinition<Type, Schema>): DefinedAdapter<Type, Schema> {
  const problem = findProblem(definition)
  if (problem !== undefined) throw new UmbraError("E720", `defineAdapter: ${problem}`)
  return defineBuiltInAdapter(definition)
}

/** Without the check of the definition: running each schema once would take a tenth of what importing Umbra takes. */
export function defineBuiltInAdapter<
  const Type extends string,
  Schema extends StandardSchemaV1 | undefined = undefined,
>(definition: AdapterDefinition<Type, Schema>): DefinedAdapter<Type, Schema> {
  const adapter = { ...definition, [adapterBrand]: true }
  return Object.freeze(adapter) as unknown as DefinedAdapter<Type, Schema>
}

export function isAdapter(value: unknown): value is Adapter {
  return typeof value === "object" && value !== null && adapterBrand in value
}

const typePattern = /^[A-Za-z][A-Za-z0-9_.-]{0,99}$/

function findProblem(
  definition: AdapterDefinition<string, StandardSchemaV1 | undefined>,
): string | undefined {
  const { type, config, process, gather, emits, writesOnce } = definition
  if (typeof type !== "string" || !typePattern.test(type)) {
    return `type must be a name of letters, digits, "_", "-" and "." that begins with a letter, not ${JSON.stringify(type)}.`
  }
  if (typeof process !== "function") return `adapter "${type}" needs a function process(message, context).`
  if (gather !== undefined && typeof gather !== "function") {
    return `gather of adapter "${type}" must be a function that returns { count, seconds }.`
  }
  if (emits !== undefined && typeof emits !== "function")
    return `emits of adapter "${type}" must be a function that returns the kinds for a config: () => ["link"].`
  if (writesOnce !== undefined && typeof writesOnce !== "function")
    return `writesOnce of adapter "${type}" must be a function that returns a boolean for a config: () => true.`
  return config === undefined ? undefined : schemaProblem(type, config)
}

/** A schema that throws on any value would throw while a pipeline is being checked. */
function schemaProblem(type: string, config: StandardSchemaV1): string | undefined {
  const standard = (config as Partial<StandardSchemaV1> | null)?.["~standard"]
  if (typeof standard?.validate !== "function") {
    return `config of adapter "${type}" must be a zod schema or another Standard Schema.`
  }
  try {
    const result = standard.validate({})
    if (result instanceof Promise) result.catch(() => {})
    else if (typeof result !== "object" || result === null) return unusable(type, "it returns no result")
  } catch (error) {
    return unusable(type, error instanceof Error ? error.message : String(error))
  }
  return undefined
}

const unusable = (type: string, why: string) =>
  `the config schema of adapter "${type}" cannot check {}: ${why}. A schema returns issues and does not throw.`
