import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { Json } from "../core/json.ts"
import type { AdapterSpec } from "../definition/adapter.ts"
import type { Log } from "../log.ts"

/** A message as an adapter sees it. */
export interface Message<Body extends Json = Json> {
  /** `route:number`, unique within its execution. */
  readonly id: string
  readonly body: Body
}

/** What an adapter knows of the message it works on, and what it can do besides answering. */
export interface AdapterContext<Config = unknown> {
  readonly config: Config
  readonly jobId: string
  readonly pipeline: string
  readonly route: string
  /** Which delivery of the message this is, from 1. */
  readonly attempt: number
  /** The same for all messages that come from one initial message. */
  readonly correlationId: string
  /** The message that this one was emitted for; null: it is an initial one. */
  readonly parent: string | null
  /** The same for every delivery of this message to this adapter. */
  readonly idempotencyKey: string
  readonly input: Json
  /** Values of this execution; what is put becomes durable with the message's acknowledgement, or not at all. */
  readonly storage: AdapterStorage
  readonly signal: AbortSignal
  readonly log: Log
  /** Sends a message to the outbound queue of its kind when this one is acknowledged. */
  emit(body: Json, options?: EmitOptions): void
  /** When this message is acknowledged, another with this body takes its place in the queue: how a source reads on. */
  continueWith(body: Json): void
  /** Submits a job; the same one when the message is delivered again. Answers its id. */
  submit(workflow: string, input?: Json, options?: { readonly key?: string }): Promise<string>
}

export interface EmitOptions {
  /** Default: "default". */
  readonly kind?: string
}

export interface AdapterStorage {
  get(key: string): Promise<Json | undefined>
  put(key: string, value: Json): void
  /** True for the first message that asks, of the whole execution: nobody else is told so while it lives or once it is acknowledged. */
  claim(key: string): Promise<boolean>
}

/** Several messages that are processed as one (`gather`): `body` is the list of their bodies. */
export type Answer = Json | undefined | void

/**
 * `process` answers with the body for the next adapter, or with nothing, which ends the chain. As a generator it emits
 * what it yields, and the chain ends with it. What it throws fails the message.
 */
export interface Adapter<Config = unknown> extends AdapterSpec<Config> {
  readonly process: (
    message: Message,
    context: AdapterContext<Config>,
  ) => Answer | Promise<Answer> | AsyncIterable<Emission> | Iterable<Emission>
  /** Messages wait here until there are enough of them; then they are processed as one, whose body is their list. */
  readonly gather?: (config: Config) => Gathering
}

/** A yielded body, or one with a kind (`emission(body, { kind })`). */
export type Emission = Json | EmittedMessage

export class EmittedMessage {
  readonly body: Json
  readonly kind: string

  constructor(body: Json, kind: string) {
    this.body = body
    this.kind = kind
  }
}

export const emission = (body: Json, { kind = "default" }: EmitOptions = {}) => new EmittedMessage(body, kind)

export interface Gathering {
  readonly count: number
  /** Since the first of them came. */
  readonly seconds: number
  /** Messages with different keys are gathered apart. */
  readonly key?: string
}

/** Its schema keeps its own type, from which the builder knows what may stand in a config. */
export type DefinedAdapter<Schema> = Omit<Adapter, "config"> & { readonly config: Schema }

/** `config` is a zod schema, or any other that follows Standard Schema; it is checked when a pipeline is loaded. */
export function defineAdapter<Schema extends StandardSchemaV1>(adapter: {
  readonly type: string
  readonly config: Schema
  readonly storesConfig?: boolean
  readonly process: Adapter<StandardSchemaV1.InferOutput<Schema>>["process"]
  readonly gather?: Adapter<StandardSchemaV1.InferOutput<Schema>>["gather"]
}): DefinedAdapter<Schema>
export function defineAdapter(adapter: Adapter): Adapter
export function defineAdapter(adapter: unknown): unknown {
  return adapter
}
